;; What `GuestMemory.keep` does for every page, without the interpreter and its lock: compare, encode, copy.
;; `page_keeper.py` puts the head in front of this, and says what is where in the work area $w.
;;
;;   $g the guest's memory    $o its overlay, mapped from the file    $b the base memory, likewise    $w the work area
;;
;; A page is compared with what is known of it: the overlay has it (states 1 and 2), or it is as in the base (0; beyond
;; its end: zeros), or it is zeros (3), which are not read, because that would fill the hole they are.

(global $base_pages (export "base_pages") (mut i32) (i32.const 0))
(global $long (export "long") (mut i32) (i32.const 0))

;; whether 64 bytes differ from the overlay's (0), from the base's (1), from zeros (2)
(func $line_differs (param $a i32) (param $from i32) (result i32)
  (local $x v128)
  (local.set $x (v128.const i64x2 0 0))
  (if (i32.eqz (local.get $from)) (then (local.set $x (v128.or
    (v128.or (v128.xor (v128.load $g (local.get $a)) (v128.load $o (local.get $a)))
             (v128.xor (v128.load $g offset=16 (local.get $a)) (v128.load $o offset=16 (local.get $a))))
    (v128.or (v128.xor (v128.load $g offset=32 (local.get $a)) (v128.load $o offset=32 (local.get $a)))
             (v128.xor (v128.load $g offset=48 (local.get $a)) (v128.load $o offset=48 (local.get $a))))))))
  (if (i32.eq (local.get $from) (i32.const 1)) (then (local.set $x (v128.or
    (v128.or (v128.xor (v128.load $g (local.get $a)) (v128.load $b (local.get $a)))
             (v128.xor (v128.load $g offset=16 (local.get $a)) (v128.load $b offset=16 (local.get $a))))
    (v128.or (v128.xor (v128.load $g offset=32 (local.get $a)) (v128.load $b offset=32 (local.get $a)))
             (v128.xor (v128.load $g offset=48 (local.get $a)) (v128.load $b offset=48 (local.get $a))))))))
  (if (i32.eq (local.get $from) (i32.const 2)) (then (local.set $x (v128.or
    (v128.or (v128.load $g (local.get $a)) (v128.load $g offset=16 (local.get $a)))
    (v128.or (v128.load $g offset=32 (local.get $a)) (v128.load $g offset=48 (local.get $a)))))))
  (v128.any_true (local.get $x)))

;; the 64 bytes that are known of a line, to the work area
(func $old_line (param $to i32) (param $a i32) (param $from i32)
  (if (i32.eqz (local.get $from)) (then (memory.copy $w $o (local.get $to) (local.get $a) (i32.const 64))))
  (if (i32.eq (local.get $from) (i32.const 1))
    (then (memory.copy $w $b (local.get $to) (local.get $a) (i32.const 64))))
  (if (i32.eq (local.get $from) (i32.const 2)) (then (memory.fill $w (local.get $to) (i32.const 0) (i32.const 64)))))

(func $state (param $page i32) (result i32)
  (i32.load8_u $w (i32.add (i32.const %STATES%) (local.get $page))))

;; what a page is compared with
(func $from (param $page i32) (result i32)
  (local $state i32)
  (local.set $state (call $state (local.get $page)))
  (if (result i32) (i32.eqz (local.get $state))
    (then (select (i32.const 1) (i32.const 2) (i32.lt_u (local.get $page) (global.get $base_pages))))
    (else (select (i32.const 2) (i32.const 0) (i32.eq (local.get $state) (i32.const 3))))))

;; whether the 4096 bytes at $a differ from the overlay: 128 at a time, without a call for each
(func $differs_from_overlay (param $a i32) (result i32)
  (local $end i32)
  (local.set $end (i32.add (local.get $a) (i32.const 4096)))
  (loop $next
    (if (v128.any_true (v128.or
      (v128.or
      (v128.or
        (v128.xor (v128.load $g offset=0 (local.get $a)) (v128.load $o offset=0 (local.get $a)))
        (v128.xor (v128.load $g offset=16 (local.get $a)) (v128.load $o offset=16 (local.get $a))))
      (v128.or
        (v128.xor (v128.load $g offset=32 (local.get $a)) (v128.load $o offset=32 (local.get $a)))
        (v128.xor (v128.load $g offset=48 (local.get $a)) (v128.load $o offset=48 (local.get $a)))))
      (v128.or
      (v128.or
        (v128.xor (v128.load $g offset=64 (local.get $a)) (v128.load $o offset=64 (local.get $a)))
        (v128.xor (v128.load $g offset=80 (local.get $a)) (v128.load $o offset=80 (local.get $a))))
      (v128.or
        (v128.xor (v128.load $g offset=96 (local.get $a)) (v128.load $o offset=96 (local.get $a)))
        (v128.xor (v128.load $g offset=112 (local.get $a)) (v128.load $o offset=112 (local.get $a)))))))
      (then (return (i32.const 1))))
    (br_if $next (i32.ne (local.tee $a (i32.add (local.get $a) (i32.const 128))) (local.get $end))))
  (i32.const 0))

;; whether the 4096 bytes at $a differ from the base: 128 at a time, without a call for each
(func $differs_from_base (param $a i32) (result i32)
  (local $end i32)
  (local.set $end (i32.add (local.get $a) (i32.const 4096)))
  (loop $next
    (if (v128.any_true (v128.or
      (v128.or
      (v128.or
        (v128.xor (v128.load $g offset=0 (local.get $a)) (v128.load $b offset=0 (local.get $a)))
        (v128.xor (v128.load $g offset=16 (local.get $a)) (v128.load $b offset=16 (local.get $a))))
      (v128.or
        (v128.xor (v128.load $g offset=32 (local.get $a)) (v128.load $b offset=32 (local.get $a)))
        (v128.xor (v128.load $g offset=48 (local.get $a)) (v128.load $b offset=48 (local.get $a)))))
      (v128.or
      (v128.or
        (v128.xor (v128.load $g offset=64 (local.get $a)) (v128.load $b offset=64 (local.get $a)))
        (v128.xor (v128.load $g offset=80 (local.get $a)) (v128.load $b offset=80 (local.get $a))))
      (v128.or
        (v128.xor (v128.load $g offset=96 (local.get $a)) (v128.load $b offset=96 (local.get $a)))
        (v128.xor (v128.load $g offset=112 (local.get $a)) (v128.load $b offset=112 (local.get $a)))))))
      (then (return (i32.const 1))))
    (br_if $next (i32.ne (local.tee $a (i32.add (local.get $a) (i32.const 128))) (local.get $end))))
  (i32.const 0))

;; whether the 4096 bytes at $a differ from zeros: 128 at a time, without a call for each
(func $differs_from_zeros (param $a i32) (result i32)
  (local $end i32)
  (local.set $end (i32.add (local.get $a) (i32.const 4096)))
  (loop $next
    (if (v128.any_true (v128.or
      (v128.or
      (v128.or
        (v128.load $g offset=0 (local.get $a))
        (v128.load $g offset=16 (local.get $a)))
      (v128.or
        (v128.load $g offset=32 (local.get $a))
        (v128.load $g offset=48 (local.get $a))))
      (v128.or
      (v128.or
        (v128.load $g offset=64 (local.get $a))
        (v128.load $g offset=80 (local.get $a)))
      (v128.or
        (v128.load $g offset=96 (local.get $a))
        (v128.load $g offset=112 (local.get $a))))))
      (then (return (i32.const 1))))
    (br_if $next (i32.ne (local.tee $a (i32.add (local.get $a) (i32.const 128))) (local.get $end))))
  (i32.const 0))

(func $page_differs (param $page i32) (result i32)
  (local $a i32) (local $from i32)
  (local.set $a (i32.shl (local.get $page) (i32.const 12)))
  (local.set $from (call $from (local.get $page)))
  (if (i32.eqz (local.get $from)) (then (return (call $differs_from_overlay (local.get $a)))))
  (if (i32.eq (local.get $from) (i32.const 1)) (then (return (call $differs_from_base (local.get $a)))))
  (call $differs_from_zeros (local.get $a)))

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

;; whether a stretch is mapped as a whole: %LONG_NEW% pages and more of which some are new, or %LONG_KNOWN% and more
(func $is_long (param $page i32) (param $last i32) (result i32)
  (local $length i32)
  (local.set $length (i32.sub (local.get $last) (local.get $page)))
  (if (i32.ge_u (local.get $length) (i32.const %LONG_KNOWN%)) (then (return (i32.const 1))))
  (if (i32.lt_u (local.get $length) (i32.const %LONG_NEW%)) (then (return (i32.const 0))))
  (loop $next
    (if (i32.eqz (call $state (local.get $page))) (then (return (i32.const 1))))
    (br_if $next (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (local.get $last))))
  (i32.const 0))

;; the pages of n regions that differ: how many, or -1 if there are more than fit. Long regions are only listed.
(func (export "compare") (param $n i32) (param $address i64) (result i32)
  (local $i i32) (local $page i32) (local $last i32) (local $found i32)
  (global.set $long (i32.const 0))
  (block $done (loop $region
    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
    (local.set $page (call $bound (local.get $i) (i32.const 0) (local.get $address)))
    (local.set $last (call $bound (local.get $i) (i32.const 1) (local.get $address)))
    (if (call $is_long (local.get $page) (local.get $last))
      (then
        (i32.store $w (i32.add (i32.const %LONG%) (i32.shl (global.get $long) (i32.const 2))) (local.get $i))
        (global.set $long (i32.add (global.get $long) (i32.const 1))))
      (else (loop $next
        (if (call $page_differs (local.get $page)) (then
          (if (i32.ge_u (local.get $found) (i32.const %MOST_PAGES%)) (then (return (i32.const -1))))
          (i32.store $w (i32.add (i32.const %OUT%) (i32.shl (local.get $found) (i32.const 2))) (local.get $page))
          (local.set $found (i32.add (local.get $found) (i32.const 1)))))
        (br_if $next
          (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (local.get $last))))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br $region)))
  (local.get $found))

;; the pages listed at OUT, as `page_delta` spells changes, to DELTA, and what undoes them, likewise, to UNDO; the length
;; of each
(func (export "encode") (param $n i32) (result i32)
  (local $i i32) (local $page i32) (local $from i32) (local $a i32) (local $to i32) (local $head i32)
  (local $map i64) (local $bit i64)
  (local.set $to (i32.const %DELTA%))
  (block $done (loop $next
    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
    (local.set $page (i32.load $w (i32.add (i32.const %OUT%) (i32.shl (local.get $i) (i32.const 2)))))
    (local.set $from (call $from (local.get $page)))
    (local.set $a (i32.shl (local.get $page) (i32.const 12)))
    (local.set $head (local.get $to))
    (local.set $to (i32.add (local.get $to) (i32.const 12)))
    (local.set $map (i64.const 0))
    (local.set $bit (i64.const 1))
    (loop $line
      (if (call $line_differs (local.get $a) (local.get $from)) (then
        (memory.copy $w $g (local.get $to) (local.get $a) (i32.const 64))
        (call $old_line (i32.add (local.get $to) (i32.const %UNDO_BEHIND%)) (local.get $a) (local.get $from))
        (local.set $to (i32.add (local.get $to) (i32.const 64)))
        (local.set $map (i64.or (local.get $map) (local.get $bit)))))
      (local.set $a (i32.add (local.get $a) (i32.const 64)))
      (br_if $line (i64.ne (local.tee $bit (i64.shl (local.get $bit) (i64.const 1))) (i64.const 0))))
    (i32.store $w (local.get $head) (local.get $page))
    (i64.store $w offset=4 (local.get $head) (local.get $map))
    (i32.store $w offset=%UNDO_BEHIND% (local.get $head) (local.get $page))
    (i64.store $w offset=%UNDO_BEHIND_MAP% (local.get $head) (local.get $map))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br $next)))
  (i32.sub (local.get $to) (i32.const %DELTA%)))

;; copy the pages listed at OUT to the overlay, which has them from now on
(func (export "copy") (param $n i32)
  (local $i i32) (local $page i32) (local $a i32)
  (block $done (loop $next
    (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
    (local.set $page (i32.load $w (i32.add (i32.const %OUT%) (i32.shl (local.get $i) (i32.const 2)))))
    (local.set $a (i32.shl (local.get $page) (i32.const 12)))
    (memory.copy $o $g (local.get $a) (local.get $a) (i32.const 4096))
    (if (i32.ne (call $state (local.get $page)) (i32.const 2)) (then
      (i32.store8 $w (i32.add (i32.const %STATES%) (local.get $page)) (i32.const 1))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br $next))))
