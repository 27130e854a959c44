;; What `GuestMemory.keep` does for every page, without the interpreter and its lock: compare, encode, copy.
;; `page_keeper.py` puts the head in front of this, makes the functions that look at one page, and says what is where in
;; the work area $w.
;;
;;   $g the guest's memory    $o its overlay, mapped from the file    $b the base memory, likewise    $w the work area
;;
;; A page is compared with what is known of it: the overlay has it (states 1 and 2), or it is as in the base (0; beyond
;; its end: zeros), or it is zeros (3), which are not read, because that would fill the hole they are.

(global $base_pages (export "base_pages") (mut i32) (i32.const 0))
(global $region (mut i32) (i32.const 0))  ;; where `keep` goes on: this region, and this page of it;
(global $page (mut i32) (i32.const -1))  ;; -1: its first
(global $long (mut i32) (i32.const 0))

(func $state (param $page i32) (result i32)
  (i32.load8_u $w (i32.add (i32.const %STATES%) (local.get $page))))

;; keep a page, if it differs: its changes go to $to and what undoes them behind it; the end of that
(func $keep_page (param $page i32) (param $to i32) (result i32)
  (local $state i32)
  (local.set $state (call $state (local.get $page)))
  (if (i32.eqz (local.get $state)) (then
    (if (i32.lt_u (local.get $page) (global.get $base_pages))
      (then (return (call $keep_page_of_base (local.get $page) (local.get $to)))))
    (return (call $keep_page_of_zeros (local.get $page) (local.get $to)))))
  (if (i32.eq (local.get $state) (i32.const 3))
    (then (return (call $keep_page_of_zeros (local.get $page) (local.get $to)))))
  (call $keep_page_of_overlay (local.get $page) (local.get $to)))

;; the overlay has all of this page from now on
(func $copy_page (param $page i32)
  (memory.copy $o $g
    (i32.shl (local.get $page) (i32.const 12)) (i32.shl (local.get $page) (i32.const 12)) (i32.const 4096))
  (i32.store8 $w (i32.add (i32.const %STATES%) (local.get $page)) (i32.const 1)))

;; a word of region i, as a page
(func $bound (param $i i32) (param $word i32) (param $address i64) (result i32)
  (i32.wrap_i64 (i64.shr_u
    (i64.sub
      (i64.load $w (i32.add (i32.mul (local.get $i) (i32.const 24)) (i32.shl (local.get $word) (i32.const 3))))
      (local.get $address))
    (i64.const 12))))

;; bytes in the first n regions
(func (export "total") (param $n i32) (result i64)
  (local $i i32) (local $sum i64)
  (block $done (loop $next
    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
    (local.set $sum (i64.add (local.get $sum) (i64.sub
      (i64.load $w offset=8 (i32.mul (local.get $i) (i32.const 24)))
      (i64.load $w (i32.mul (local.get $i) (i32.const 24))))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br $next)))
  (local.get $sum))

;; whether a stretch is mapped as a whole: of %LONG_KNOWN% pages and more, or with %LONG_NEW% and more that are new
(func $is_long (param $page i32) (param $last i32) (result i32)
  (local $length i32) (local $new i32)
  (local.set $length (i32.sub (local.get $last) (local.get $page)))
  (if (i32.ge_u (local.get $length) (i32.const %LONG_KNOWN%)) (then (return (i32.const 1))))
  (if (i32.lt_u (local.get $length) (i32.const %LONG_NEW%)) (then (return (i32.const 0))))
  (loop $next
    (local.set $new (i32.add (local.get $new) (i32.eqz (call $state (local.get $page)))))
    (br_if $next (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (local.get $last))))
  (i32.ge_u (local.get $new) (i32.const %LONG_NEW%)))

;; Keep the pages of n regions that differ: their numbers go to OUT, what changed in them and what undoes it to DELTA and
;; UNDO, as `page_delta` spells it. It ends early when these are full, and goes on when called again without $first.
;; Long regions are only listed. Gives how many pages (16 bits), how many long regions so far (16), the bytes of DELTA.
(func (export "keep") (param $n i32) (param $address i64) (param $first i32) (result i64)
  (local $page i32) (local $last i32) (local $found i32) (local $to i32) (local $end i32)
  (local.set $to (i32.const %DELTA%))
  (if (local.get $first) (then
    (global.set $region (i32.const 0))
    (global.set $page (i32.const -1))
    (global.set $long (i32.const 0))))
  (block $full (block $done (loop $region
    (br_if $done (i32.ge_u (global.get $region) (local.get $n)))
    (local.set $page (call $bound (global.get $region) (i32.const 0) (local.get $address)))
    (local.set $last (call $bound (global.get $region) (i32.const 1) (local.get $address)))
    (if (i32.and (i32.eq (global.get $page) (i32.const -1)) (call $is_long (local.get $page) (local.get $last)))
      (then
        (i32.store $w (i32.add (i32.const %LONG%) (i32.shl (global.get $long) (i32.const 2))) (global.get $region))
        (global.set $long (i32.add (global.get $long) (i32.const 1))))
      (else
        (if (i32.ne (global.get $page) (i32.const -1)) (then (local.set $page (global.get $page))))
        (loop $next
          (if (i32.ge_u (local.get $found) (i32.const %MOST_PAGES%)) (then
            (global.set $page (local.get $page))
            (br $full)))
          (local.set $end (call $keep_page (local.get $page) (local.get $to)))
          (if (i32.ne (local.get $end) (local.get $to)) (then
            (i32.store $w (i32.add (i32.const %OUT%) (i32.shl (local.get $found) (i32.const 2))) (local.get $page))
            (local.set $found (i32.add (local.get $found) (i32.const 1)))
            (local.set $to (local.get $end))))
          (br_if $next
            (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (local.get $last))))))
    (global.set $page (i32.const -1))
    (global.set $region (i32.add (global.get $region) (i32.const 1)))
    (br $region))))
  (i64.or
    (i64.extend_i32_u (i32.or (local.get $found) (i32.shl (global.get $long) (i32.const 16))))
    (i64.shl (i64.extend_i32_u (i32.sub (local.get $to) (i32.const %DELTA%))) (i64.const 32))))
