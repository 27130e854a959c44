;; The filter between the guest and WASI. Imports, the element segment and the %NAMES% come from interposer.py.
;;
;; Two memories: $g is the guest's, never trusted; $s is our scratch, which the guest cannot see.
;;   %HIDDEN%     the hidden names, lower case        %STAT%   a filestat       %OUT32%, %OUT64%  small results
;;   %OUT_LEN%.. length, descriptor and last flush of the output buffer at %OUT_BUFFER%
;;   %JOURNAL_LEN% length of the journal at %JOURNAL%  %FLAGS%  a byte per descriptor: 1 /dev/null, 2 appends, 4 opened by the guest,
;;                                                     8 of the workspace, 16 of /data
;;   %KNOWN%      per descriptor, a size its file is known to have had
;;   %PATH%       a path copied for wasmtime to read   %LIST%   a folder's listing, to the memory's end
;;   %SESSIONS%   names of sessions that are no UUIDs, lower case   %FOLDED%  a component of a path, as it is compared
;; Lists of names: each a byte for its length, and its bytes; a length of 0 ends the list.
;;
;; Errors are WASI's: 21 EFAULT, 22 EFBIG, 33 EMFILE, 37 ENAMETOOLONG, 44 ENOENT, 48 ENOMEM, 51 ENOSPC, 63 EPERM.
;;
;; The hidden names. Any path component that folds to something beginning with one of them does not exist, in any call,
;; in any folder, and no link may point to one. Where $sessions is set, neither do components below the workspace that are
;; a UUID or the name of a session: the folders of sessions. These are rules about text, so they cannot be raced; and they
;; hold at any depth, because a link to . would make any depth the first.
;;
;; /data is a folder of the person's, which the guest cannot change: names there that begin with a dot do not exist, and no
;; link is followed, so neither what is hidden there nor what lies outside can be reached by another name.

  (global $bytes (export "bytes") (mut i64) (i64.const 0))          ;; what the guest may still write
  (global $files (export "files") (mut i64) (i64.const 0))          ;; what it may still create
  (global $max_file (export "max_file") (mut i64) (i64.const 0))
  (global $dirty (export "dirty") (mut i32) (i32.const 0))          ;; something was changed, or was about to be
  (global $open (export "open") (mut i32) (i32.const 0))
  (global $max_open (export "max_open") (mut i32) (i32.const 0))
  (global $dev (export "dev") (mut i32) (i32.const -1))             ;; the descriptor /dev is mounted under
  (global $app (export "app") (mut i32) (i32.const -1))             ;; and the workspace
  (global $data (export "data") (mut i32) (i32.const -1))           ;; and /data
  (global $sessions (export "sessions") (mut i32) (i32.const 0))    ;; whether folders of sessions are hidden in it
  (global $clock_offset (export "clock_offset") (mut i64) (i64.const 0))
  (global $refused (export "refused") (mut i32) (i32.const 0))      ;; times the hidden name was asked for
  (global $listed_fd (mut i32) (i32.const -1))                      ;; the cached listing: whose it is, its end,
  (global $listed_end (mut i32) (i32.const 0))
  (global $next_cookie (mut i64) (i64.const 0))                     ;; and where the next sequential call goes on
  (global $next_entry (mut i32) (i32.const 0))

  ;; ---- checks --------------------------------------------------------------------------------------------

  ;; Does [p, p+n) lie in the guest's memory?
  (func $fits (param $p i32) (param $n i32) (result i32)
    (i64.le_u (i64.add (i64.extend_i32_u (local.get $p)) (i64.extend_i32_u (local.get $n)))
              (i64.shl (i64.extend_i32_u (memory.size $g)) (i64.const 16))))

  ;; ASCII case is folded; 0 stands for a byte to skip (any byte from 0x80: combining marks, zero-width characters).
  (func $fold (param $c i32) (result i32)
    (if (i32.ge_u (local.get $c) (i32.const 128)) (then (return (i32.const 0))))
    (if (i32.lt_u (i32.sub (local.get $c) (i32.const 65)) (i32.const 26))
      (then (return (i32.add (local.get $c) (i32.const 32)))))
    (local.get $c))
  ;; The byte at p, folded; U+017F (C5 BF) folds to s, U+212A (E2 84 AA) to k.
  (func $folded (param $p i32) (param $end i32) (result i32)
    (local $c i32)
    (local.set $c (i32.load8_u $s (local.get $p)))
    (if (i32.and (i32.eq (local.get $c) (i32.const 0xC5))
          (i32.le_u (i32.add (local.get $p) (i32.const 2)) (local.get $end))) (then
      (if (i32.eq (i32.load8_u $s offset=1 (local.get $p)) (i32.const 0xBF)) (then (return (i32.const 115))))))
    (if (i32.and (i32.eq (local.get $c) (i32.const 0xE2))
          (i32.le_u (i32.add (local.get $p) (i32.const 3)) (local.get $end))) (then
      (if (i32.eq (i32.load16_u $s offset=1 align=1 (local.get $p)) (i32.const 0xAA84)) (then (return (i32.const 107))))))
    (call $fold (local.get $c)))

  ;; Does the folded component, of n bytes, begin with the name of len bytes at p?
  (func $begins (param $n i32) (param $p i32) (param $len i32) (result i32)
    (local $i i32)
    (if (i32.lt_u (local.get $n) (local.get $len)) (then (return (i32.const 0))))
    (loop $next
      (if (i32.eq (local.get $i) (local.get $len)) (then (return (i32.const 1))))
      (if (i32.ne (i32.load8_u $s (i32.add (i32.const %FOLDED%) (local.get $i)))
                  (i32.load8_u $s (i32.add (local.get $p) (local.get $i)))) (then (return (i32.const 0))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next))
    (unreachable))
  ;; Is there nothing behind its first at bytes but what some file systems leave out: dots, blanks, a stream?
  (func $ends (param $n i32) (param $at i32) (result i32)
    (local $c i32)
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $n)) (then (return (i32.const 1))))
      (local.set $c (i32.load8_u $s (i32.add (i32.const %FOLDED%) (local.get $at))))
      (if (i32.eq (local.get $c) (i32.const 58)) (then (return (i32.const 1))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.or (i32.eq (local.get $c) (i32.const 46)) (i32.eq (local.get $c) (i32.const 32)))))
    (i32.const 0))
  (func $is_uuid (param $n i32) (result i32)
    (local $i i32) (local $c i32)
    (if (i32.lt_u (local.get $n) (i32.const 36)) (then (return (i32.const 0))))
    (loop $next
      (local.set $c (i32.load8_u $s (i32.add (i32.const %FOLDED%) (local.get $i))))
      (if (i32.or (i32.or (i32.eq (local.get $i) (i32.const 8)) (i32.eq (local.get $i) (i32.const 13)))
                  (i32.or (i32.eq (local.get $i) (i32.const 18)) (i32.eq (local.get $i) (i32.const 23))))
        (then (if (i32.ne (local.get $c) (i32.const 45)) (then (return (i32.const 0)))))
        (else (if (i32.eqz (i32.or (i32.lt_u (i32.sub (local.get $c) (i32.const 48)) (i32.const 10))
                                   (i32.lt_u (i32.sub (local.get $c) (i32.const 97)) (i32.const 6))))
          (then (return (i32.const 0))))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 36))))
    (call $ends (local.get $n) (i32.const 36)))

  ;; Is the folded component hidden: does it begin with a hidden name, or, with $below, is it a session's folder?
  (func $is_hidden (param $n i32) (param $below i32) (result i32)
    (local $p i32) (local $len i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
    (local.set $p (i32.const %HIDDEN%))
    (block $none (loop $next
      (br_if $none (i32.eqz (local.tee $len (i32.load8_u $s (local.get $p)))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (if (call $begins (local.get $n) (local.get $p) (local.get $len)) (then (return (i32.const 1))))
      (local.set $p (i32.add (local.get $p) (local.get $len)))
      (br $next)))
    (if (i32.eqz (local.get $below)) (then (return (i32.const 0))))
    (if (call $is_uuid (local.get $n)) (then (return (i32.const 1))))
    (local.set $p (i32.const %SESSIONS%))
    (block $none (loop $next
      (br_if $none (i32.eqz (local.tee $len (i32.load8_u $s (local.get $p)))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (if (call $begins (local.get $n) (local.get $p) (local.get $len)) (then
        (if (call $ends (local.get $n) (local.get $len)) (then (return (i32.const 1))))))
      (local.set $p (i32.add (local.get $p) (local.get $len)))
      (br $next)))
    (i32.const 0))

  ;; 1 when a path in the scratch memory has a hidden component. A slash, a backslash and NUL end one.
  (func $hidden (param $p i32) (param $n i32) (param $below i32) (result i32)
    (local $end i32) (local $k i32) (local $c i32)
    (local.set $end (i32.add (local.get $p) (local.get $n)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $p) (local.get $end)))
      (local.set $c (i32.load8_u $s (local.get $p)))
      (if (i32.or (i32.eq (local.get $c) (i32.const 47))
            (i32.or (i32.eq (local.get $c) (i32.const 92)) (i32.eqz (local.get $c))))
        (then
          (if (call $is_hidden (local.get $k) (local.get $below)) (then (return (i32.const 1))))
          (local.set $k (i32.const 0)))
        (else (if (local.tee $c (call $folded (local.get $p) (local.get $end))) (then
          (i32.store8 $s (i32.add (i32.const %FOLDED%) (local.get $k)) (local.get $c))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (br $next)))
    (call $is_hidden (local.get $k) (local.get $below)))

  ;; Are folders of sessions hidden in what a descriptor leads to?
  (func $below (param $dir i32) (result i32)
    (i32.and (global.get $sessions) (i32.or (i32.eq (local.get $dir) (global.get $app))
      (i32.or (i32.ge_u (local.get $dir) (i32.const %FLAGS_SIZE%))
              (i32.ne (i32.and (call $flag (local.get $dir)) (i32.const 8)) (i32.const 0))))))

  ;; Is it /data, or a folder in it?
  (func $in_data (param $dir i32) (result i32)
    (i32.or (i32.eq (local.get $dir) (global.get $data))
      (i32.or (i32.ge_u (local.get $dir) (i32.const %FLAGS_SIZE%))
              (i32.ne (i32.and (call $flag (local.get $dir)) (i32.const 16)) (i32.const 0)))))
  ;; Does the name of n bytes at p begin with a dot, but is neither . nor ..?
  (func $dotted (param $p i32) (param $n i32) (result i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
    (if (i32.ne (i32.load8_u $s (local.get $p)) (i32.const 46)) (then (return (i32.const 0))))
    (if (i32.eq (local.get $n) (i32.const 1)) (then (return (i32.const 0))))
    (i32.or (i32.ne (local.get $n) (i32.const 2)) (i32.ne (i32.load8_u $s offset=1 (local.get $p)) (i32.const 46))))
  ;; Are the first n bytes of PATH the path of a link?
  (func $is_link (param $dir i32) (param $n i32) (result i32)
    (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
    (if (call $s_path_filestat_get (local.get $dir) (i32.const 0) (i32.const %PATH%) (local.get $n) (i32.const %STAT%))
      (then (return (i32.const 0))))
    (i32.eq (i32.load8_u $s offset=16 (i32.const %STAT%)) (i32.const 7)))
  ;; 0, or the errno for a path at PATH, below /data, that has a name with a dot first or leads through a link. What it
  ;; ends in may be a link: whoever would follow that asks $is_link as well. A slash and a backslash end a name.
  (func $data_ok (param $dir i32) (param $n i32) (result i32)
    (local $i i32) (local $from i32) (local $c i32)
    (loop $next
      (local.set $c (i32.const 47))
      (if (i32.lt_u (local.get $i) (local.get $n))
        (then (local.set $c (i32.load8_u $s (i32.add (i32.const %PATH%) (local.get $i))))))
      (if (i32.or (i32.eq (local.get $c) (i32.const 47)) (i32.eq (local.get $c) (i32.const 92))) (then
        (if (call $dotted (i32.add (i32.const %PATH%) (local.get $from)) (i32.sub (local.get $i) (local.get $from)))
          (then (return (i32.const 44))))
        (if (i32.and (i32.eq (local.get $c) (i32.const 47)) (i32.lt_u (local.get $i) (local.get $n)))
          (then (if (call $is_link (local.get $dir) (local.get $i)) (then (return (i32.const 63))))))
        (local.set $from (i32.add (local.get $i) (i32.const 1)))))
      (br_if $next (i32.le_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (i32.const 0))
  ;; 63 for a path at PATH that would follow a link in /data.
  (func $ends_in_link (param $dir i32) (param $n i32) (result i32)
    (if (i32.eqz (call $in_data (local.get $dir))) (then (return (i32.const 0))))
    (i32.mul (call $is_link (local.get $dir) (local.get $n)) (i32.const 63)))

  ;; 0, or the errno for a path with a hidden component. Afterwards the path is at PATH, too.
  (func $path_ok (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (if (i32.gt_u (local.get $n) (i32.const 4096)) (then (return (i32.const 37))))
    (if (i32.eqz (call $fits (local.get $p) (local.get $n))) (then (return (i32.const 21))))
    (memory.copy $s $g (i32.const %PATH%) (local.get $p) (local.get $n))
    (if (i32.eqz (call $hidden (i32.const %PATH%) (local.get $n) (call $below (local.get $dir)))) (then
      (if (call $in_data (local.get $dir)) (then (return (call $data_ok (local.get $dir) (local.get $n)))))
      (return (i32.const 0))))
    (global.set $refused (i32.add (global.get $refused) (i32.const 1)))
    (i32.const 44))

  ;; EPERM for a link target that is absolute or has a .. component. After $path_ok, so it lies in memory.
  (func $climbs (param $p i32) (param $n i32) (result i32)
    (local $end i32) (local $c i32) (local $dots i32)
    (local.set $end (i32.add (local.get $p) (local.get $n)))
    (if (i32.eqz (local.get $n)) (then (return (i32.const 0))))
    (if (i32.eq (i32.load8_u $g (local.get $p)) (i32.const 47)) (then (return (i32.const 63))))
    (block $done (loop $next      ;; $dots: dots since the component began, -1 once another byte came
      (if (i32.ge_u (local.get $p) (local.get $end))
        (then (return (i32.mul (i32.eq (local.get $dots) (i32.const 2)) (i32.const 63)))))
      (local.set $c (i32.load8_u $g (local.get $p)))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (if (i32.or (i32.eq (local.get $c) (i32.const 47)) (i32.eq (local.get $c) (i32.const 92))) (then
        (if (i32.eq (local.get $dots) (i32.const 2)) (then (return (i32.const 63))))
        (local.set $dots (i32.const 0)) (br $next)))
      (local.set $dots (select (i32.add (local.get $dots) (i32.const 1)) (i32.const -1)
        (i32.and (i32.eq (local.get $c) (i32.const 46)) (i32.ge_s (local.get $dots) (i32.const 0)))))
      (br $next)))
    (i32.const 0))

  ;; Before the first change of a run the host looks at the folders: what the change is measured against, and what
  ;; room is left.
  (func $touch
    (if (i32.eqz (global.get $dirty)) (then
      (global.set $dirty (i32.const 1)) (call $forget)
      (drop (call $py_refill (i32.const 2) (i64.const 0))))))

  ;; ---- quotas --------------------------------------------------------------------------------------------

  ;; Room for n bytes; when the budget is short the host counts again, once: 0 or ENOSPC.
  (func $room (param $n i64) (result i32)
    (if (i64.ge_s (global.get $bytes) (local.get $n)) (then (return (i32.const 0))))
    (global.set $bytes (call $py_refill (i32.const 0) (local.get $n)))
    (call $forget)
    (i32.mul (i64.lt_s (global.get $bytes) (local.get $n)) (i32.const 51)))
  ;; Room for one more name, and for the bytes it takes on disk.
  (func $room_for_name (param $n i64) (result i32)
    (if (i64.lt_s (global.get $files) (i64.const 1)) (then
      (global.set $files (call $py_refill (i32.const 1) (i64.const 1)))
      (if (i64.lt_s (global.get $files) (i64.const 1)) (then (return (i32.const 51))))))
    (call $room (local.get $n)))
  (func $charge (param $n i64) (global.set $bytes (i64.sub (global.get $bytes) (local.get $n))))
  (func $charge_name (param $n i64)
    (global.set $files (i64.sub (global.get $files) (i64.const 1)))
    (call $charge (local.get $n)))
  ;; May len bytes be written at pos? 0 and the charge at OUT64, or ENOSPC or EFBIG. The charge is len where the file is
  ;; known to reach pos; else its size is asked for, as a write past the end grows it by more than it writes. Once the
  ;; budget is short the host counts again, and then only real growth counts. What is appended goes to the end.
  (func $afford (param $fd i32) (param $len i64) (param $pos i64) (result i32)
    (local $grow i64) (local $size i64) (local $e i32) (local $asked i32)
    (local.set $size (i64.load $s (call $known_at (local.get $fd))))
    (if (i32.or (i32.and (call $flag (local.get $fd)) (i32.const 2)) (i64.gt_u (local.get $pos) (local.get $size))) (then
      (if (call $s_fd_filestat_get (local.get $fd) (i32.const %STAT%)) (then (return (i32.const 51))))
      (local.set $asked (i32.const 1))
      (local.set $size (i64.load $s (i32.const %STAT_SIZE%)))
      (if (i32.and (call $flag (local.get $fd)) (i32.const 2)) (then (local.set $pos (local.get $size))))))
    (if (i32.or (i64.gt_u (local.get $pos) (global.get $max_file))
                (i64.gt_u (i64.add (local.get $pos) (local.get $len)) (global.get $max_file)))
      (then (return (i32.const 22))))
    (local.set $grow (local.get $len))
    (if (i64.gt_u (local.get $pos) (local.get $size))
      (then (local.set $grow (i64.sub (i64.add (local.get $pos) (local.get $len)) (local.get $size)))))
    (i64.store $s (i32.const %OUT64%) (local.get $grow))
    (if (call $room (local.get $grow)) (then
      (if (i32.eqz (local.get $asked)) (then
        (if (call $s_fd_filestat_get (local.get $fd) (i32.const %STAT%)) (then (return (i32.const 51))))
        (local.set $size (i64.load $s (i32.const %STAT_SIZE%)))))
      (local.set $grow (i64.sub (i64.add (local.get $pos) (local.get $len)) (local.get $size)))
      (if (i64.lt_s (local.get $grow) (i64.const 0)) (then (local.set $grow (i64.const 0))))
      (i64.store $s (i32.const %OUT64%) (local.get $grow))
      (if (i64.lt_s (global.get $bytes) (local.get $grow)) (then (return (i32.const 51))))))
    ;; after the write the file reaches at least to here
    (i64.store $s (call $known_at (local.get $fd)) (i64.add (local.get $pos) (local.get $len)))
    (i32.const 0))

  ;; ---- the journal of open descriptors ---------------------------------------------------------------------
  ;; What the host needs to open them again after a restore: a record per open and per close.

  (func $journal_room (param $n i32) (result i32)
    (if (i32.gt_u (i32.add (i32.load $s (i32.const %JOURNAL_LEN%)) (local.get $n)) (i32.const %JOURNAL_SIZE%))
      (then (drop (call $py_journal (i32.const 0)))))
    (i32.add (i32.const %JOURNAL%) (i32.load $s (i32.const %JOURNAL_LEN%))))
  ;; The path is taken from our copy: the call may have written over the guest's.
  (func $note_open (param $fd i32) (param $dir i32) (param $lookup i32) (param $n i32)
                   (param $oflags i32) (param $rights i64) (param $fdflags i32)
    (local $at i32)
    (local.set $at (call $journal_room (i32.add (local.get $n) (i32.const 40))))
    (i32.store $s align=1 (local.get $at) (i32.const 1))
    (i32.store $s offset=4 align=1 (local.get $at) (local.get $fd))
    (i32.store $s offset=8 align=1 (local.get $at) (local.get $dir))
    (i32.store $s offset=12 align=1 (local.get $at) (local.get $lookup))
    (i32.store $s offset=16 align=1 (local.get $at) (local.get $oflags))
    (i32.store $s offset=20 align=1 (local.get $at) (local.get $fdflags))
    (i64.store $s offset=24 align=1 (local.get $at) (local.get $rights))
    (i32.store $s offset=32 align=1 (local.get $at) (local.get $n))
    (memory.copy $s $s (i32.add (local.get $at) (i32.const 36)) (i32.const %PATH%) (local.get $n))
    (i32.store $s (i32.const %JOURNAL_LEN%)
      (i32.add (i32.load $s (i32.const %JOURNAL_LEN%)) (i32.add (local.get $n) (i32.const 36)))))
  (func $note_close (param $fd i32)
    (local $at i32)
    (local.set $at (call $journal_room (i32.const 8)))
    (i32.store $s align=1 (local.get $at) (i32.const 2))
    (i32.store $s offset=4 align=1 (local.get $at) (local.get $fd))
    (i32.store $s (i32.const %JOURNAL_LEN%) (i32.add (i32.load $s (i32.const %JOURNAL_LEN%)) (i32.const 8))))

  ;; ---- /dev/null -------------------------------------------------------------------------------------------

  (func $flag (param $fd i32) (result i32)
    (if (i32.ge_u (local.get $fd) (i32.const %FLAGS_SIZE%)) (then (return (i32.const 0))))
    (i32.load8_u $s (i32.add (local.get $fd) (i32.const %FLAGS%))))
  (func $of_mount (param $dir i32) (result i32)      ;; the flag of what is opened there
    (if (i32.eq (local.get $dir) (global.get $app)) (then (return (i32.const 8))))
    (if (i32.eq (local.get $dir) (global.get $data)) (then (return (i32.const 16))))
    (i32.and (call $flag (local.get $dir)) (i32.const 24)))
  (func $set_flag (param $fd i32) (param $value i32)
    (if (i32.ge_u (local.get $fd) (i32.const %FLAGS_SIZE%)) (then (return)))
    (i32.store8 $s (i32.add (local.get $fd) (i32.const %FLAGS%)) (local.get $value)))
  (func $known_at (param $fd i32) (result i32)      ;; descriptors past the table share its last place
    (i32.add (i32.const %KNOWN%) (i32.shl
      (select (i32.const %FLAGS_LAST%) (local.get $fd) (i32.gt_u (local.get $fd) (i32.const %FLAGS_LAST%))) (i32.const 3))))
  (func $forget      ;; a file may have become shorter, through any descriptor or name
    (memory.fill $s (i32.const %KNOWN%) (i32.const 0) (i32.const 16384)))
  (func $is_null (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (if (i32.or (i32.ne (local.get $dir) (global.get $dev)) (i32.ne (local.get $n) (i32.const 4)))
      (then (return (i32.const 0))))
    (i32.eq (i32.load $g align=1 (local.get $p)) (i32.const 0x6c6c756e)))      ;; "null"

  ;; ---- paths -------------------------------------------------------------------------------------------------

  ;; Is it a folder whose contents are not the image's: opened by the guest, or mounted after /dev?
  (func $is_users (param $dir i32) (result i32)
    (i32.or (i32.gt_s (local.get $dir) (global.get $dev)) (i32.and (call $flag (local.get $dir)) (i32.const 4))))
  ;; Is what was asked for at STAT neither a folder (3) nor a file (4) nor a link (7)? To open a FIFO would wait for its
  ;; other end, out of reach of interrupts and limits; a device is none of the guest's business.
  (func $is_special (result i32)
    (i32.eqz (i32.and (i32.shr_u (i32.const 0x98) (i32.load8_u $s offset=16 (i32.const %STAT%))) (i32.const 1))))

  (func $path_open (param $dir i32) (param $lookup i32) (param $p i32) (param $n i32) (param $oflags i32)
                   (param $rights i64) (param $inherit i64) (param $fdflags i32) (param $out i32) (result i32)
    (local $e i32) (local $fd i32) (local $creates i32) (local $null i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (if (local.tee $e (call $ends_in_link (local.get $dir) (local.get $n))) (then (return (local.get $e))))
    (if (i32.eqz (call $fits (local.get $out) (i32.const 4))) (then (return (i32.const 21))))
    (if (i32.ge_s (global.get $open) (global.get $max_open)) (then (return (i32.const 33))))
    (if (local.tee $null (call $is_null (local.get $dir) (local.get $p) (local.get $n))) (then
      (local.set $oflags (i32.const 0)) (local.set $fdflags (i32.const 0))     ;; /dev is mounted read-only
      (local.set $rights (i64.and (local.get $rights) (i64.const -65)))))      ;; all but FD_WRITE
    (if (i32.and (local.get $oflags) (i32.const 9)) (then (call $touch)))      ;; CREAT, TRUNC
    (if (i32.and (local.get $oflags) (i32.const 8)) (then (call $forget)))
    (local.set $creates (i32.and (local.get $oflags) (i32.const 1)))
    (if (i32.or (local.get $creates) (call $is_users (local.get $dir))) (then
      (if (i32.eqz (call $s_path_filestat_get (local.get $dir) (i32.and (local.get $lookup) (i32.const 1))
                     (i32.const %PATH%) (local.get $n) (i32.const %STAT%)))
        (then
          (if (call $is_special) (then (return (i32.const 63))))
          (local.set $creates (i32.const 0)))                                  ;; it is there: nothing new
        (else (if (local.get $creates) (then
          (if (local.tee $e (call $room_for_name (i64.const 4096))) (then (return (local.get $e))))))))))
    (local.set $e (call $real_path_open (local.get $dir) (local.get $lookup) (local.get $p) (local.get $n)
      (local.get $oflags) (local.get $rights) (local.get $inherit) (local.get $fdflags) (local.get $out)))
    (if (local.get $e) (then (return (local.get $e))))
    (local.set $fd (i32.load $g align=1 (local.get $out)))
    (global.set $open (i32.add (global.get $open) (i32.const 1)))
    (call $set_flag (local.get $fd) (i32.or (i32.or (i32.const 4) (call $of_mount (local.get $dir)))
      (i32.or (local.get $null) (i32.shl (i32.and (local.get $fdflags) (i32.const 1)) (i32.const 1)))))
    (i64.store $s (call $known_at (local.get $fd)) (i64.const 0))
    (call $note_open (local.get $fd) (local.get $dir) (local.get $lookup) (local.get $n)
      (local.get $oflags) (local.get $rights) (local.get $fdflags))
    (if (local.get $creates) (then (call $charge_name (i64.const 4096))))
    (i32.const 0))

  (func $fd_close (param $fd i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $real_fd_close (local.get $fd))) (then (return (local.get $e))))
    (if (i32.and (call $flag (local.get $fd)) (i32.const 4))                     ;; not standard input, not a mount
      (then (global.set $open (i32.sub (global.get $open) (i32.const 1)))))
    (call $set_flag (local.get $fd) (i32.const 0))
    (if (i32.eq (local.get $fd) (global.get $listed_fd)) (then (global.set $listed_fd (i32.const -1))))
    (call $note_close (local.get $fd))
    (i32.const 0))

  (func $path_filestat_get (param $dir i32) (param $lookup i32) (param $p i32) (param $n i32) (param $out i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (if (i32.and (local.get $lookup) (i32.const 1)) (then
      (if (local.tee $e (call $ends_in_link (local.get $dir) (local.get $n))) (then (return (local.get $e))))))
    (call $real_path_filestat_get (local.get $dir) (local.get $lookup) (local.get $p) (local.get $n) (local.get $out)))

  (func $path_filestat_set_times (param $dir i32) (param $lookup i32) (param $p i32) (param $n i32)
                                 (param $atime i64) (param $mtime i64) (param $flags i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (call $touch)
    (call $real_path_filestat_set_times (local.get $dir) (local.get $lookup) (local.get $p) (local.get $n)
      (local.get $atime) (local.get $mtime) (local.get $flags)))

  (func $path_create_directory (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (call $touch)
    (if (local.tee $e (call $room_for_name (i64.const 4096))) (then (return (local.get $e))))
    (local.set $e (call $real_path_create_directory (local.get $dir) (local.get $p) (local.get $n)))
    (if (i32.eqz (local.get $e)) (then (call $charge_name (i64.const 4096))))
    (local.get $e))

  (func $path_remove_directory (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (call $touch)
    (call $real_path_remove_directory (local.get $dir) (local.get $p) (local.get $n)))

  (func $path_unlink_file (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (call $touch)
    (call $real_path_unlink_file (local.get $dir) (local.get $p) (local.get $n)))

  (func $path_readlink (param $dir i32) (param $p i32) (param $n i32) (param $buf i32) (param $len i32) (param $used i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (if (local.tee $e (call $ends_in_link (local.get $dir) (local.get $n))) (then (return (local.get $e))))
    (call $real_path_readlink (local.get $dir) (local.get $p) (local.get $n) (local.get $buf) (local.get $len) (local.get $used)))

  (func $path_rename (param $dir i32) (param $p i32) (param $n i32) (param $dir2 i32) (param $p2 i32) (param $n2 i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (if (local.tee $e (call $path_ok (local.get $dir2) (local.get $p2) (local.get $n2))) (then (return (local.get $e))))
    (call $touch)
    (call $real_path_rename (local.get $dir) (local.get $p) (local.get $n)
      (local.get $dir2) (local.get $p2) (local.get $n2)))

  (func $path_link (param $dir i32) (param $lookup i32) (param $p i32) (param $n i32)
                   (param $dir2 i32) (param $p2 i32) (param $n2 i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (if (local.tee $e (call $path_ok (local.get $dir2) (local.get $p2) (local.get $n2))) (then (return (local.get $e))))
    (call $touch)
    (if (local.tee $e (call $room_for_name (i64.const 1024))) (then (return (local.get $e))))
    (local.set $e (call $real_path_link (local.get $dir) (local.get $lookup) (local.get $p) (local.get $n)
      (local.get $dir2) (local.get $p2) (local.get $n2)))
    (if (i32.eqz (local.get $e)) (then (call $charge_name (i64.const 1024))))
    (local.get $e))

  (func $path_symlink (param $target i32) (param $len i32) (param $dir i32) (param $p i32) (param $n i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $path_ok (global.get $app) (local.get $target) (local.get $len))) (then (return (local.get $e))))
    (if (local.tee $e (call $climbs (local.get $target) (local.get $len))) (then (return (local.get $e))))
    (if (local.tee $e (call $path_ok (local.get $dir) (local.get $p) (local.get $n))) (then (return (local.get $e))))
    (call $touch)
    (if (local.tee $e (call $room_for_name (i64.const 4096))) (then (return (local.get $e))))
    (local.set $e (call $real_path_symlink (local.get $target) (local.get $len)
      (local.get $dir) (local.get $p) (local.get $n)))
    (if (i32.eqz (local.get $e)) (then (call $charge_name (i64.const 4096))))
    (local.get $e))

  ;; ---- listings ------------------------------------------------------------------------------------------------
  ;; wasmtime stats every entry again for each buffer: quadratic. Here the whole listing is loaded once, hidden names
  ;; dropped, and any cookie and buffer length is served from it. Cookies stay wasmtime's own.

  (func $load (param $fd i32) (result i32)
    (local $room i32) (local $used i32) (local $e i32) (local $at i32) (local $to i32) (local $len i32) (local $end i32)
    (local $tries i32)
    (global.set $listed_fd (i32.const -1))
    (local.set $room (i32.sub (i32.shl (memory.size $s) (i32.const 16)) (i32.const %LIST%)))
    (block $whole (loop $again
      (if (local.tee $e (call $s_fd_readdir (local.get $fd) (i32.const %LIST%) (local.get $room) (i64.const 0) (i32.const %OUT32%)))
        (then
          ;; an entry that went away between wasmtime's listing and its stat: list again
          (br_if $again (i32.and (i32.eq (local.get $e) (i32.const 44))
            (i32.lt_u (local.tee $tries (i32.add (local.get $tries) (i32.const 1))) (i32.const 32))))
          (if (i32.ne (local.get $e) (i32.const 25)) (then (return (local.get $e))))
          ;; a name that is not UTF-8: wasmtime lists nothing, so the host does
          (local.set $used (call $py_list (local.get $fd) (local.get $room)))
          (if (i32.eqz (local.get $used)) (then (return (local.get $e))))
          (br_if $whole (i32.le_u (local.get $used) (local.get $room)))
          (if (i32.eq (memory.grow $s (i32.shr_u (i32.add (local.get $used) (i32.const 65535)) (i32.const 16))) (i32.const -1))
            (then (return (i32.const 48))))
          (local.set $room (i32.sub (i32.shl (memory.size $s) (i32.const 16)) (i32.const %LIST%)))
          (br $again)))
      (local.set $used (i32.load $s (i32.const %OUT32%)))
      (br_if $whole (i32.lt_u (local.get $used) (local.get $room)))
      (if (i32.eq (memory.grow $s (i32.shr_u (i32.mul (local.get $room) (i32.const 7)) (i32.const 16))) (i32.const -1))
        (then (if (i32.eq (memory.grow $s (i32.const 16)) (i32.const -1)) (then (return (i32.const 48))))))
      (local.set $room (i32.sub (i32.shl (memory.size $s) (i32.const 16)) (i32.const %LIST%)))
      (br $again)))
    (local.set $at (i32.const %LIST%)) (local.set $to (i32.const %LIST%))
    (local.set $end (i32.add (local.get $at) (local.get $used)))
    (block $done (loop $next
      (br_if $done (i32.gt_u (i32.add (local.get $at) (i32.const 24)) (local.get $end)))
      (local.set $len (i32.add (i32.const 24) (i32.load $s offset=16 (local.get $at))))
      (if (i32.eqz (i32.or
          (call $hidden (i32.add (local.get $at) (i32.const 24)) (i32.sub (local.get $len) (i32.const 24))
            (call $below (local.get $fd)))
          (i32.and (call $in_data (local.get $fd))
            (call $dotted (i32.add (local.get $at) (i32.const 24)) (i32.sub (local.get $len) (i32.const 24))))))
        (then
        (memory.copy $s $s (local.get $to) (local.get $at) (local.get $len))
        ;; the padding behind the type byte holds what wasmtime's stack held: cleared
        (i32.store $s offset=20 (local.get $to) (i32.and (i32.load $s offset=20 (local.get $to)) (i32.const 255)))
        (local.set $to (i32.add (local.get $to) (local.get $len)))))
      (local.set $at (i32.add (local.get $at) (local.get $len)))
      (br $next)))
    (global.set $listed_fd (local.get $fd)) (global.set $listed_end (local.get $to))
    (global.set $next_cookie (i64.const 0)) (global.set $next_entry (i32.const %LIST%))
    (i32.const 0))

  (func $fd_readdir (param $fd i32) (param $buf i32) (param $len i32) (param $cookie i64) (param $used i32) (result i32)
    (local $e i32) (local $off i32) (local $n i32) (local $at i32) (local $stop i32)
    (if (i32.eqz (i32.and (call $fits (local.get $buf) (local.get $len)) (call $fits (local.get $used) (i32.const 4))))
      (then (return (i32.const 21))))
    (if (i32.or (i64.eqz (local.get $cookie)) (i32.ne (local.get $fd) (global.get $listed_fd)))
      (then (if (local.tee $e (call $load (local.get $fd))) (then (return (local.get $e))))))
    ;; the entry the cookie names: the one after the entry whose d_next is the cookie
    (local.set $off (i32.const %LIST%))
    (if (i64.eq (local.get $cookie) (global.get $next_cookie))
      (then (local.set $off (global.get $next_entry)))
      (else (if (i64.ne (local.get $cookie) (i64.const 0)) (then
        (block $found (loop $seek
          (br_if $found (i32.ge_u (local.get $off) (global.get $listed_end)))
          (local.set $e (i64.ge_u (i64.load $s (local.get $off)) (local.get $cookie)))
          (local.set $off (i32.add (local.get $off) (i32.add (i32.const 24) (i32.load $s offset=16 (local.get $off)))))
          (br_if $seek (i32.eqz (local.get $e)))))))))
    ;; as many bytes as the buffer takes, the last entry cut where it ends, as wasmtime writes them
    (local.set $n (i32.sub (global.get $listed_end) (local.get $off)))
    (if (i32.gt_u (local.get $n) (local.get $len)) (then (local.set $n (local.get $len))))
    (memory.copy $g $s (local.get $buf) (local.get $off) (local.get $n))
    ;; remember where the next sequential call starts: after the last whole entry
    (local.set $stop (i32.add (local.get $off) (local.get $n)))
    (local.set $at (local.get $off))
    (global.set $next_cookie (local.get $cookie)) (global.set $next_entry (local.get $off))
    (block $done (loop $walk
      (br_if $done (i32.gt_u (i32.add (local.get $at) (i32.const 24)) (local.get $stop)))
      (local.set $off (i32.add (local.get $at) (i32.add (i32.const 24) (i32.load $s offset=16 (local.get $at)))))
      (br_if $done (i32.gt_u (local.get $off) (local.get $stop)))
      (global.set $next_cookie (i64.load $s (local.get $at)))
      (global.set $next_entry (local.get $off))
      (local.set $at (local.get $off))
      (br $walk)))
    (i32.store $g align=1 (local.get $used) (local.get $n))
    (i32.const 0))

  ;; ---- output ----------------------------------------------------------------------------------------------------
  ;; Writes to stdout and stderr gather in a buffer. It goes to the host when it is full, when the other stream is
  ;; written, at the end of a line when the last flush is %FLUSH_NS% ns ago, and before anything that waits or speaks to the host. What is
  ;; left then, the host takes itself: from its epoch callback and after the turn, by reading the scratch memory.

  (func $flush
    (local $n i32)
    (if (local.tee $n (i32.load $s (i32.const %OUT_LEN%))) (then
      (i32.store $s (i32.const %OUT_LEN%) (i32.const 0))
      (drop (call $py_out (i32.load $s (i32.const %OUT_FD%)) (i32.const %OUT_BUFFER%) (local.get $n))))))
  (func $now (result i64)
    (drop (call $s_clock_time_get (i32.const 1) (i64.const 1000) (i32.const %OUT64%)))
    (i64.load $s (i32.const %OUT64%)))
  (func $emit (param $fd i32) (param $p i32) (param $n i32)
    (local $k i32) (local $at i32) (local $t i64) (local $last i32)
    (if (i32.eqz (local.get $n)) (then (return)))
    (local.set $last (i32.load8_u $g (i32.sub (i32.add (local.get $p) (local.get $n)) (i32.const 1))))
    (if (i32.ne (local.get $fd) (i32.load $s (i32.const %OUT_FD%))) (then
      (call $flush) (i32.store $s (i32.const %OUT_FD%) (local.get $fd))))
    (block $done (loop $more
      (br_if $done (i32.eqz (local.get $n)))
      (local.set $at (i32.load $s (i32.const %OUT_LEN%)))
      (local.set $k (i32.sub (i32.const %OUT_SIZE%) (local.get $at)))
      (if (i32.gt_u (local.get $k) (local.get $n)) (then (local.set $k (local.get $n))))
      (memory.copy $s $g (i32.add (i32.const %OUT_BUFFER%) (local.get $at)) (local.get $p) (local.get $k))
      ;; memory.copy looks at the epoch: the host may have emptied the buffer meanwhile, and the copy lies too far back
      (br_if $more (i32.ne (local.get $at) (i32.load $s (i32.const %OUT_LEN%))))
      (i32.store $s (i32.const %OUT_LEN%) (i32.add (local.get $at) (local.get $k)))
      (local.set $p (i32.add (local.get $p) (local.get $k)))
      (local.set $n (i32.sub (local.get $n) (local.get $k)))
      (if (i32.eq (i32.load $s (i32.const %OUT_LEN%)) (i32.const %OUT_SIZE%)) (then (call $flush)))
      (br $more)))
    ;; half a line waits for the other half, or for the host's next look
    (if (i32.and (i32.ne (local.get $last) (i32.const 10)) (i32.ne (local.get $last) (i32.const 13))) (then (return)))
    (local.set $t (call $now))
    (if (i64.gt_u (i64.sub (local.get $t) (i64.load $s (i32.const %OUT_LAST%))) (i64.const %FLUSH_NS%)) (then
      (i64.store $s (i32.const %OUT_LAST%) (local.get $t)) (call $flush))))

  ;; ---- reading and writing -----------------------------------------------------------------------------------------

  ;; The first non-empty buffer of an iovec array, as wasmtime takes it: its length in the result, its address at
  ;; OUT32, its iovec's at OUT32+4; -1 for a fault.
  (func $buffer (param $p i32) (param $n i32) (result i64)
    (local $len i32)
    (if (i32.gt_u (local.get $n) (i32.const 1024)) (then (return (i64.const -1))))
    (if (i32.eqz (call $fits (local.get $p) (i32.shl (local.get $n) (i32.const 3)))) (then (return (i64.const -1))))
    (i32.store $s (i32.const %OUT32%) (i32.const 0))
    (i32.store $s offset=4 (i32.const %OUT32%) (local.get $p))
    (block $none (loop $next
      (br_if $none (i32.eqz (local.get $n)))
      (local.set $len (i32.load $g offset=4 align=1 (local.get $p)))
      (if (local.get $len) (then
        (i32.store $s (i32.const %OUT32%) (i32.load $g align=1 (local.get $p)))
        (i32.store $s offset=4 (i32.const %OUT32%) (local.get $p))
        (if (i32.eqz (call $fits (i32.load $s (i32.const %OUT32%)) (local.get $len))) (then (return (i64.const -1))))
        (return (i64.extend_i32_u (local.get $len)))))
      (local.set $p (i32.add (local.get $p) (i32.const 8)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next)))
    (i64.const 0))
  ;; wasmtime answers ENOMEM to a buffer past 128 MiB: it is offered a shorter one, and the length is put back after.
  (func $shorten (param $len i64) (result i32)
    (if (i64.le_u (local.get $len) (i64.const %CLAMP%)) (then (return (i32.const 0))))
    (i32.store $g offset=4 align=1 (i32.load $s offset=4 (i32.const %OUT32%)) (i32.const %CLAMP%))
    (i32.load $s offset=4 (i32.const %OUT32%)))
  (func $put_back (param $at i32) (param $len i64)
    (if (local.get $at) (then (i32.store $g offset=4 align=1 (local.get $at) (i32.wrap_i64 (local.get $len))))))

  (func $fd_write (param $fd i32) (param $iovs i32) (param $n i32) (param $out i32) (result i32)
    (local $len i64) (local $e i32) (local $at i32) (local $do i64) (local $pos i64) (local $cost i64)
    (if (i64.lt_s (local.tee $len (call $buffer (local.get $iovs) (local.get $n))) (i64.const 0)) (then (return (i32.const 21))))
    (if (i32.eqz (call $fits (local.get $out) (i32.const 4))) (then (return (i32.const 21))))
    (if (i32.lt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 2)) (then
      (call $emit (local.get $fd) (i32.load $s (i32.const %OUT32%)) (i32.wrap_i64 (local.get $len)))
      (i32.store $g align=1 (local.get $out) (i32.wrap_i64 (local.get $len)))
      (return (i32.const 0))))
    (if (i32.and (call $flag (local.get $fd)) (i32.const 1)) (then
      (i32.store $g align=1 (local.get $out) (i32.wrap_i64 (local.get $len)))
      (return (i32.const 0))))
    (if (i32.eqz (local.get $fd)) (then (return (i32.const 8))))                ;; EBADF: stdin is not for writing
    (call $touch)
    (local.set $at (call $shorten (local.get $len)))
    (local.set $do (select (i64.const %CLAMP%) (local.get $len) (local.get $at)))
    (block $done
      (if (i32.eqz (call $s_fd_tell (local.get $fd) (i32.const %OUT64%))) (then (local.set $pos (i64.load $s (i32.const %OUT64%)))))
      (br_if $done (local.tee $e (call $afford (local.get $fd) (local.get $do) (local.get $pos))))
      (local.set $cost (i64.load $s (i32.const %OUT64%)))
      (br_if $done (local.tee $e (call $real_fd_write (local.get $fd) (local.get $iovs) (local.get $n) (local.get $out))))
      (call $charge (local.get $cost)))
    (call $put_back (local.get $at) (local.get $len))
    (local.get $e))

  (func $fd_pwrite (param $fd i32) (param $iovs i32) (param $n i32) (param $off i64) (param $out i32) (result i32)
    (local $len i64) (local $e i32) (local $at i32) (local $do i64) (local $cost i64)
    (if (i64.lt_s (local.tee $len (call $buffer (local.get $iovs) (local.get $n))) (i64.const 0)) (then (return (i32.const 21))))
    (if (i32.eqz (call $fits (local.get $out) (i32.const 4))) (then (return (i32.const 21))))
    (if (i32.and (call $flag (local.get $fd)) (i32.const 1)) (then
      (i32.store $g align=1 (local.get $out) (i32.wrap_i64 (local.get $len)))
      (return (i32.const 0))))
    (call $touch)
    (local.set $at (call $shorten (local.get $len)))
    (local.set $do (select (i64.const %CLAMP%) (local.get $len) (local.get $at)))
    (block $done
      (br_if $done (local.tee $e (call $afford (local.get $fd) (local.get $do) (local.get $off))))
      (local.set $cost (i64.load $s (i32.const %OUT64%)))
      (br_if $done (local.tee $e (call $real_fd_pwrite (local.get $fd) (local.get $iovs) (local.get $n) (local.get $off) (local.get $out))))
      (call $charge (local.get $cost)))
    (call $put_back (local.get $at) (local.get $len))
    (local.get $e))

  (func $fd_read (param $fd i32) (param $iovs i32) (param $n i32) (param $out i32) (result i32)
    (local $len i64) (local $e i32) (local $at i32)
    (if (i32.eqz (local.get $fd)) (then (call $flush)))
    (if (i64.lt_s (local.tee $len (call $buffer (local.get $iovs) (local.get $n))) (i64.const 0)) (then (return (i32.const 21))))
    (local.set $at (call $shorten (local.get $len)))
    (local.set $e (call $real_fd_read (local.get $fd) (local.get $iovs) (local.get $n) (local.get $out)))
    (call $put_back (local.get $at) (local.get $len))
    (local.get $e))

  (func $fd_pread (param $fd i32) (param $iovs i32) (param $n i32) (param $off i64) (param $out i32) (result i32)
    (local $len i64) (local $e i32) (local $at i32)
    (if (i64.lt_s (local.tee $len (call $buffer (local.get $iovs) (local.get $n))) (i64.const 0)) (then (return (i32.const 21))))
    (local.set $at (call $shorten (local.get $len)))
    (local.set $e (call $real_fd_pread (local.get $fd) (local.get $iovs) (local.get $n) (local.get $off) (local.get $out)))
    (call $put_back (local.get $at) (local.get $len))
    (local.get $e))

  (func $fd_filestat_set_size (param $fd i32) (param $size i64) (result i32)
    (local $e i32) (local $grow i64)
    (call $touch)
    (if (i64.gt_u (local.get $size) (global.get $max_file)) (then (return (i32.const 22))))
    (if (local.tee $e (call $s_fd_filestat_get (local.get $fd) (i32.const %STAT%))) (then (return (local.get $e))))
    (local.set $grow (i64.sub (local.get $size) (i64.load $s (i32.const %STAT_SIZE%))))
    (if (i64.gt_s (local.get $grow) (i64.const 0)) (then
      (if (local.tee $e (call $room (local.get $grow))) (then (return (local.get $e))))))
    (local.set $e (call $real_fd_filestat_set_size (local.get $fd) (local.get $size)))
    (call $forget)
    (if (i32.and (i32.eqz (local.get $e)) (i64.gt_s (local.get $grow) (i64.const 0))) (then (call $charge (local.get $grow))))
    (local.get $e))

  (func $fd_fdstat_set_flags (param $fd i32) (param $flags i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $real_fd_fdstat_set_flags (local.get $fd) (local.get $flags))) (then (return (local.get $e))))
    (call $set_flag (local.get $fd) (i32.or (i32.and (call $flag (local.get $fd)) (i32.const 13))
      (i32.shl (i32.and (local.get $flags) (i32.const 1)) (i32.const 1))))
    (i32.const 0))

  (func $fd_filestat_get (param $fd i32) (param $out i32) (result i32)
    (call $real_fd_filestat_get (local.get $fd) (local.get $out)))

  (func $fd_filestat_set_times (param $fd i32) (param $atime i64) (param $mtime i64) (param $flags i32) (result i32)
    (call $touch)
    (call $real_fd_filestat_set_times (local.get $fd) (local.get $atime) (local.get $mtime) (local.get $flags)))

  ;; ---- time, waiting, the door ---------------------------------------------------------------------------------------

  ;; A restored guest's monotonic clocks go on from where they were.
  (func $clock_time_get (param $id i32) (param $precision i64) (param $out i32) (result i32)
    (local $e i32)
    (if (local.tee $e (call $real_clock_time_get (local.get $id) (local.get $precision) (local.get $out))) (then (return (local.get $e))))
    (if (local.get $id) (then
      (i64.store $g align=1 (local.get $out) (i64.add (i64.load $g align=1 (local.get $out)) (global.get $clock_offset)))))
    (i32.const 0))

  ;; wasmtime's own wait cannot be interrupted: the host waits instead.
  (func $poll_oneoff (param $in i32) (param $out i32) (param $n i32) (param $used i32) (result i32)
    (call $flush)
    (call $py_poll (local.get $in) (local.get $out) (local.get $n) (local.get $used)
      (i64.add (call $now) (global.get $clock_offset))))

  (func $host_call (param $p i32) (param $n i32) (param $out i32) (param $out_len i32) (result i32)
    (call $flush)
    (call $py_door (local.get $p) (local.get $n) (local.get $out) (local.get $out_len)))
