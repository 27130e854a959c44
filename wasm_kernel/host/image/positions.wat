;; Positions and counts (np.intp) have 32 bits here, but people's integers have 64: what goes from one to the other.
;; `int64.py` fills in what is in braces, imports what is called and not here, and lays the exported functions over the
;; runtime's of the same name; $original_NAME is what was there before.
;;
;; An array: data at 8, number of dimensions at 12, dimensions at 16, descr at 28, flags at 32. A descr: byteorder at 14,
;; type_num at 16. An index of a[...]: object, value, type, 12 bytes in all.

;; whether an array has integers of which some are no positions: uint (6), ulong (8), longlong (9), ulonglong (10)
(func $is_wide (param $array i32) (result i32) (local $type i32)
  (local.set $type (i32.load offset=16 (i32.load offset=28 (local.get $array))))
  (if (result i32) (i32.gt_u (local.get $type) (i32.const 10))
    (then (i32.const 0))
    (else (i32.and (i32.shr_u (i32.const 0x740) (local.get $type)) (i32.const 1)))))

;; whether its numbers are one after the other (C or F order), aligned and in native order
(func $is_plain (param $array i32) (result i32) (local $flags i32)
  (local.set $flags (i32.load offset=32 (local.get $array)))
  (if (i32.eqz (i32.and (local.get $flags) (i32.const 3))) (then (return (i32.const 0))))
  (if (i32.eqz (i32.and (local.get $flags) (i32.const 0x100))) (then (return (i32.const 0))))
  (i32.eq (i32.load8_u offset=14 (i32.load offset=28 (local.get $array))) (i32.const 61)))  ;; byteorder is "="

;; a new array of another type, with the shape and the order of this one
(func $new_like (param $array i32) (param $type i32) (param $same_class i32) (result i32)
  (call $PyArray_NewLikeArray
    (local.get $array) (i32.const 2) (call $PyArray_DescrFromType (local.get $type)) (local.get $same_class)))  ;; K order

;; a copy of the array as positions, or 0 and an exception if one of its numbers is none
(func $narrowed (param $array i32) (param $exception i32) (result i32)
  (call $narrowed_within (local.get $array) (local.get $exception) (i32.const 2) (i32.const 0)))

;; likewise; in the modes clip (0) and wrap (1) of take, put and choose, what is no position among $count becomes one
(func $narrowed_within (param $array i32) (param $exception i32) (param $mode i32) (param $count i32) (result i32)
    (local $type i32) (local $plain i32) (local $new i32)
  (local.set $type (i32.load offset=16 (i32.load offset=28 (local.get $array))))
  (local.set $plain (local.get $array))
  (if (i32.eqz (call $is_plain (local.get $array))) (then
    (local.set $plain (call $new_like (local.get $array) (local.get $type) (i32.const 0)))
    (if (i32.eqz (local.get $plain)) (then (return (i32.const 0))))
    (if (i32.lt_s (call $PyArray_AssignArray (local.get $plain) (local.get $array) (i32.const 0) (i32.const 4)) (i32.const 0))
      (then (call $_Py_DecRef (local.get $plain)) (return (i32.const 0))))))
  (local.set $new (call $new_like (local.get $plain) (i32.const 7) (i32.const 0)))
  (if (local.get $new) (then
    (if (call $narrow_numbers
          (local.get $plain) (local.get $type) (local.get $new) (local.get $mode) (i64.extend_i32_s (local.get $count))) (then
      (call $_Py_DecRef (local.get $new))
      (local.set $new (i32.const 0))
      (call $raise (local.get $exception))))))
  (if (i32.ne (local.get $plain) (local.get $array)) (then (call $_Py_DecRef (local.get $plain))))
  (local.get $new))

;; all numbers of a plain array into one of positions; whether one of them did not fit
(func $narrow_numbers (param $array i32) (param $type i32) (param $new i32) (param $mode i32) (param $count i64) (result i32)
    (local $from i32) (local $to i32) (local $end i32) (local $number i64) (local $unsigned i64) (local $lost i64)
  (local.set $from (i32.load offset=8 (local.get $array)))
  (local.set $to (i32.load offset=8 (local.get $new)))
  (local.set $end (i32.add (local.get $to) (i32.shl
    (call $PyArray_MultiplyList (i32.load offset=16 (local.get $new)) (i32.load offset=12 (local.get $new))) (i32.const 2))))
  (if (i32.and (i32.ne (local.get $type) (i32.const 9)) (i32.eq (local.get $mode) (i32.const 2)))
    (then (local.set $unsigned (i64.const 0x8000000080000000))))
  (loop $next
    (if (i32.lt_u (local.get $to) (local.get $end)) (then
      (if (i32.ge_u (local.get $type) (i32.const 9))
        (then
          (local.set $number (i64.load (local.get $from)))
          (local.set $from (i32.add (local.get $from) (i32.const 8))))
        (else
          (local.set $number (i64.load32_u (local.get $from)))
          (local.set $from (i32.add (local.get $from) (i32.const 4)))))
      (if (i32.ne (local.get $mode) (i32.const 2))
        (then (local.set $number (call $within (local.get $number) (local.get $mode) (local.get $count)))))
      (local.set $lost (i64.or (local.get $lost) (i64.or
        (i64.xor (local.get $number) (i64.extend32_s (local.get $number)))
        (i64.and (local.get $number) (local.get $unsigned)))))
      (i64.store32 (local.get $to) (local.get $number))
      (local.set $to (i32.add (local.get $to) (i32.const 4)))
      (br $next))))
  (i64.ne (local.get $lost) (i64.const 0)))

;; a number as one of $count positions; of none, any will do: there is nothing to take
(func $within (param $number i64) (param $mode i32) (param $count i64) (result i64)
  (if (i64.le_s (local.get $count) (i64.const 0)) (then (return (i64.const 0))))
  (if (i32.eqz (local.get $mode)) (then
    (if (i64.lt_s (local.get $number) (i64.const 0)) (then (return (i64.const 0))))
    (if (i64.ge_s (local.get $number) (local.get $count)) (then (return (i64.sub (local.get $count) (i64.const 1)))))
    (return (local.get $number))))
  (local.set $number (i64.rem_s (local.get $number) (local.get $count)))
  (if (result i64) (i64.lt_s (local.get $number) (i64.const 0))
    (then (i64.add (local.get $number) (local.get $count)))
    (else (local.get $number))))

;; what take, put and choose are to look for: a new reference, or 0 and an exception
(func $sought (param $object i32) (param $mode i32) (param $count i32) (result i32) (local $array i32) (local $new i32)
  (local.set $array (call $PyArray_FromAny
    (local.get $object) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
  (if (i32.eqz (local.get $array)) (then (return (i32.const 0))))
  (if (i32.eqz (call $is_wide (local.get $array))) (then (return (local.get $array))))
  (local.set $new (call $narrowed_within (local.get $array) (i32.const {IndexError}) (local.get $mode) (local.get $count)))
  (call $_Py_DecRef (local.get $array))
  (local.get $new))

(func $size (param $array i32) (result i32)
  (call $PyArray_MultiplyList (i32.load offset=16 (local.get $array)) (i32.load offset=12 (local.get $array))))

(func $PyArray_TakeFrom (export "PyArray_TakeFrom")
    (param $array i32) (param $object i32) (param $axis i32) (param $out i32) (param $mode i32) (result i32)
    (local $count i32) (local $ndim i32) (local $result i32)
  (if (i32.eq (local.get $mode) (i32.const 2)) (then (return (call $original_PyArray_TakeFrom
    (local.get $array) (local.get $object) (local.get $axis) (local.get $out) (local.get $mode)))))
  (local.set $ndim (i32.load offset=12 (local.get $array)))
  (local.set $count (i32.add (local.get $axis) (select (local.get $ndim) (i32.const 0) (i32.lt_s (local.get $axis) (i32.const 0)))))
  (local.set $count (if (result i32) (i32.lt_u (local.get $count) (local.get $ndim))
    (then (i32.load (i32.add (i32.load offset=16 (local.get $array)) (i32.shl (local.get $count) (i32.const 2)))))
    (else (call $size (local.get $array)))))  ;; no axis; or a wrong one, which raises
  (local.set $object (call $sought (local.get $object) (local.get $mode) (local.get $count)))
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (local.set $result (call $original_PyArray_TakeFrom
    (local.get $array) (local.get $object) (local.get $axis) (local.get $out) (local.get $mode)))
  (call $_Py_DecRef (local.get $object))
  (local.get $result))

(func $PyArray_PutTo (export "PyArray_PutTo")
    (param $array i32) (param $values i32) (param $object i32) (param $mode i32) (result i32) (local $result i32)
  (if (i32.eq (local.get $mode) (i32.const 2)) (then (return (call $original_PyArray_PutTo
    (local.get $array) (local.get $values) (local.get $object) (local.get $mode)))))
  (if (call $PyType_IsSubtype (i32.load offset=4 (local.get $array)) (i32.const {ndarray}))
    (then (local.set $result (call $size (local.get $array)))))
  (local.set $object (call $sought (local.get $object) (local.get $mode) (local.get $result)))
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (local.set $result (call $original_PyArray_PutTo
    (local.get $array) (local.get $values) (local.get $object) (local.get $mode)))
  (call $_Py_DecRef (local.get $object))
  (local.get $result))

(func $PyArray_Choose (export "PyArray_Choose")
    (param $object i32) (param $choices i32) (param $out i32) (param $mode i32) (result i32) (local $result i32)
  (if (i32.eq (local.get $mode) (i32.const 2)) (then (return (call $original_PyArray_Choose
    (local.get $object) (local.get $choices) (local.get $out) (local.get $mode)))))
  (local.set $result (call $PySequence_Size (local.get $choices)))
  (if (i32.lt_s (local.get $result) (i32.const 0)) (then (return (i32.const 0))))
  (local.set $object (call $sought (local.get $object) (local.get $mode) (local.get $result)))
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (local.set $result (call $original_PyArray_Choose
    (local.get $object) (local.get $choices) (local.get $out) (local.get $mode)))
  (call $_Py_DecRef (local.get $object))
  (local.get $result))

;; replace the exception that is set
(func $raise (param $exception i32) (local $text i32)
  (local.set $text (i32.sub (global.get $__stack_pointer) (i32.const 96)))
  (global.set $__stack_pointer (local.get $text))
  {write_text}
  (call $PyErr_SetString (i32.load (local.get $exception)) (local.get $text))
  (global.set $__stack_pointer (i32.add (local.get $text) (i32.const 96))))

;; PyArray_FromAny for what is to become positions: wide integers are taken if their values fit
(func $from_any (param $object i32) (param $descr i32) (param $least i32) (param $most i32) (param $flags i32) (param $context i32)
    (param $exception i32) (result i32) (local $array i32) (local $new i32)
  (local.set $array (call $PyArray_FromAny
    (local.get $object) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
  (if (i32.eqz (local.get $array)) (then (call $_Py_DecRef (local.get $descr)) (return (i32.const 0))))
  (local.set $new (local.get $object))
  (if (call $is_wide (local.get $array)) (then
    (local.set $new (call $narrowed (local.get $array) (local.get $exception)))
    (call $_Py_DecRef (local.get $array))
    (local.set $array (local.get $new))
    (if (i32.eqz (local.get $new)) (then (call $_Py_DecRef (local.get $descr)) (return (i32.const 0))))))
  (local.set $new (call $PyArray_FromAny
    (local.get $new) (local.get $descr) (local.get $least) (local.get $most) (local.get $flags) (local.get $context)))
  (call $_Py_DecRef (local.get $array))
  (local.get $new))

(func $positions_from_any (export "positions_from_any")
    (param $object i32) (param $descr i32) (param $least i32) (param $most i32) (param $flags i32) (param $context i32) (result i32)
  (call $from_any (local.get $object) (local.get $descr) (local.get $least) (local.get $most) (local.get $flags) (local.get $context)
    (i32.const {IndexError})))

(func $counts_from_any (export "counts_from_any")
    (param $object i32) (param $descr i32) (param $least i32) (param $most i32) (param $flags i32) (param $context i32) (result i32)
  (call $from_any (local.get $object) (local.get $descr) (local.get $least) (local.get $most) (local.get $flags) (local.get $context)
    (i32.const {ValueError})))

;; partition's kth: PyArray_CastToType, but not by wrapping
(func $positions_cast (export "positions_cast") (param $array i32) (param $descr i32) (param $fortran i32) (result i32)
  (if (i32.eqz (call $is_wide (local.get $array)))
    (then (return (call $PyArray_CastToType (local.get $array) (local.get $descr) (local.get $fortran)))))
  (call $_Py_DecRef (local.get $descr))
  (call $narrowed (local.get $array) (i32.const {ValueError})))

;; searchsorted's sorter, likewise
(func $positions_from_array (export "positions_from_array")
    (param $array i32) (param $descr i32) (param $flags i32) (result i32) (local $new i32) (local $result i32)
  (if (i32.eqz (call $is_wide (local.get $array)))
    (then (return (call $PyArray_FromArray (local.get $array) (local.get $descr) (local.get $flags)))))
  (local.set $new (call $narrowed (local.get $array) (i32.const {ValueError})))
  (if (i32.eqz (local.get $new)) (then (call $_Py_DecRef (local.get $descr)) (return (i32.const 0))))
  (local.set $result (call $PyArray_FromArray (local.get $new) (local.get $descr) (local.get $flags)))
  (call $_Py_DecRef (local.get $new))
  (local.get $result))

;; a[...]: arrays of integers among the indexes become positions, which is also the quickest way to go through them
(func $prepare_index_noarray (export "prepare_index_noarray")
    (param $ndim i32) (param $dims i32) (param $index i32) (param $indices i32) (param $num i32) (param $new_ndim i32)
    (param $fancy_ndim i32) (param $allow_boolean i32) (param $is_flat i32) (result i32)
    (local $kinds i32) (local $at i32) (local $end i32) (local $object i32) (local $new i32)
  (local.set $kinds (call $original_prepare_index_noarray
    (local.get $ndim) (local.get $dims) (local.get $index) (local.get $indices) (local.get $num) (local.get $new_ndim)
    (local.get $fancy_ndim) (local.get $allow_boolean) (local.get $is_flat)))
  (if (i32.lt_s (local.get $kinds) (i32.const 0)) (then  ;; a[2**40]
    (if (call $PyErr_ExceptionMatches (i32.load (i32.const {OverflowError}))) (then (call $raise (i32.const {IndexError}))))
    (return (local.get $kinds))))
  (if (i32.eqz (i32.and (local.get $kinds) (i32.const 16))) (then (return (local.get $kinds))))
  (local.set $at (local.get $indices))
  (local.set $end (i32.add (local.get $at) (i32.mul (i32.load (local.get $num)) (i32.const 12))))
  (loop $next
    (if (i32.lt_u (local.get $at) (local.get $end)) (then
      (if (i32.eq (i32.load offset=8 (local.get $at)) (i32.const 16)) (then
        (local.set $object (i32.load (local.get $at)))
        (if (call $is_wide (local.get $object)) (then
          (local.set $new (call $narrowed (local.get $object) (i32.const {IndexError})))
          (if (i32.eqz (local.get $new)) (then
            (call $drop_indices (local.get $indices) (local.get $end))
            (i32.store (local.get $num) (i32.const -1))  ;; flat[...] = ... would drop them once more
            (return (i32.const -1))))
          (i32.store (local.get $at) (local.get $new))
          (call $_Py_DecRef (local.get $object))))))
      (local.set $at (i32.add (local.get $at) (i32.const 12)))
      (br $next))))
  (local.get $kinds))

(func $drop_indices (param $at i32) (param $end i32) (local $object i32)
  (loop $next
    (if (i32.lt_u (local.get $at) (local.get $end)) (then
      (local.set $object (i32.load (local.get $at)))
      (if (local.get $object) (then (call $_Py_DecRef (local.get $object))))
      (local.set $at (i32.add (local.get $at) (i32.const 12)))
      (br $next)))))

;; the integers of ravel_multi_index and unravel_index
(func $astype_anyint (export "astype_anyint") (param $object i32) (result i32) (local $array i32) (local $new i32)
  (local.set $array (call $original_astype_anyint (local.get $object)))
  (if (i32.eqz (local.get $array)) (then (return (i32.const 0))))
  (if (i32.eqz (call $is_wide (local.get $array))) (then (return (local.get $array))))
  (local.set $new (call $narrowed (local.get $array) (i32.const {ValueError})))
  (call $_Py_DecRef (local.get $array))
  (local.get $new))

;; ---- what people get: 64 bits
;;
;; A function that returns positions returns np.intp to the libraries, whose compiled code takes nothing else, and int64
;; to people's code: its globals are those of __main__, of a module in /app or /packages, or some without a name (exec);
;; or they say so themselves under "return" (guest/integers.py).

(func $is_for_people (result i32) (local $globals i32) (local $name i32)
  (if (i32.eqz (call $is_called_by_interpreter)) (then (return (i32.const 0))))
  (local.set $globals (call $PyEval_GetGlobals))
  (if (i32.eqz (local.get $globals)) (then (return (i32.const 0))))
  (local.set $name (call $PyDict_GetItemWithError (local.get $globals) (i32.const {__name__})))
  (if (i32.eqz (local.get $name)) (then (return (i32.eqz (call $PyErr_Occurred)))))
  (if (i32.eq (local.get $name) (i32.const {__main__})) (then (return (i32.const 1))))
  (local.set $name (call $PyDict_GetItemWithError (local.get $globals) (i32.const {return})))
  (if (local.get $name) (then (return (i32.ne (call $PyLong_AsLong (local.get $name)) (i32.const 0)))))
  (local.set $name (call $PyDict_GetItemWithError (local.get $globals) (i32.const {__file__})))
  (if (local.get $name) (then (local.set $name (call $PyUnicode_AsUTF8 (local.get $name)))))
  (if (i32.eqz (local.get $name)) (then (call $PyErr_Clear) (return (i32.const 0))))
  (local.set $name (i32.load align=1 (local.get $name)))
  (i32.or
    (i32.eq (local.get $name) (i32.const 0x7070612f))  ;; "/app"
    (i32.eq (local.get $name) (i32.const 0x6361702f))))  ;; "/pac"

;; Compiled code has no globals: those of its caller would be taken for its own. But it has a place on the C stack.
;; The interpreter keeps a frame there, of owner 3 and 272 bytes above its end. It calls a compiled function itself, through
;; _PyVectorcall_Call for f(*args) and f(**kwargs) (16 bytes), or through _Py_VectorCall_StackRefSteal and PyObject_Vectorcall
;; (80); methods without arguments have 16 more.
(func $is_called_by_interpreter (result i32) (local $frame i32) (local $distance i32)
  (local.set $frame (i32.load offset=56 (i32.load (i32.const {thread_state}))))
  (loop $next
    (if (i32.eqz (local.get $frame)) (then (return (i32.const 0))))
    (if (i32.le_s (i32.load8_s offset=38 (local.get $frame)) (i32.const 2)) (then
      (local.set $frame (i32.load offset=4 (local.get $frame)))
      (br $next))))
  (local.set $distance (i32.sub (local.get $frame) (global.get $__stack_pointer)))
  (i32.or
    (i32.or (i32.eq (local.get $distance) (i32.const 272)) (i32.eq (local.get $distance) (i32.const 288)))
    (i32.or (i32.eq (local.get $distance) (i32.const 352)) (i32.eq (local.get $distance) (i32.const 368)))))

;; a wide copy of positions; 0: these are none, or others have them as well (argmax(out=...)); -1: an exception
(func $wide_copy (param $object i32) (result i32) (local $new i32)
  (if (i32.ne (i32.load (local.get $object)) (i32.const 1)) (then (return (i32.const 0))))  ;; the count of references
  (if (i32.eq (i32.load offset=4 (local.get $object)) (i32.const {int32}))
    (then (return (call $wide_scalar (local.get $object)))))
  (if (i32.eqz (call $PyType_IsSubtype (i32.load offset=4 (local.get $object)) (i32.const {ndarray}))) (then (return (i32.const 0))))
  (if (i32.ne (i32.load offset=16 (i32.load offset=28 (local.get $object))) (i32.const 7)) (then (return (i32.const 0))))
  (local.set $new (call $new_like (local.get $object) (i32.const 9) (i32.const 1)))
  (if (i32.eqz (local.get $new)) (then (return (i32.const -1))))
  (if (i32.ge_s (call $PyArray_AssignArray (local.get $new) (local.get $object) (i32.const 0) (i32.const 4)) (i32.const 0))
    (then (return (local.get $new))))
  (call $_Py_DecRef (local.get $new))
  (i32.const -1))

(func $wide_scalar (param $object i32) (result i32) (local $place i32) (local $descr i32) (local $new i32)
  (local.set $place (i32.sub (global.get $__stack_pointer) (i32.const 16)))
  (global.set $__stack_pointer (local.get $place))
  (i64.store (local.get $place) (i64.load32_s offset=8 (local.get $object)))
  (local.set $descr (call $PyArray_DescrFromType (i32.const 9)))
  (local.set $new (call $PyArray_Scalar (local.get $place) (local.get $descr) (i32.const 0)))
  (call $_Py_DecRef (local.get $descr))
  (global.set $__stack_pointer (i32.add (local.get $place) (i32.const 16)))
  (select (local.get $new) (i32.const -1) (local.get $new)))

;; an array or a scalar, widened in place of itself
(func $widened (param $object i32) (result i32) (local $new i32)
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (local.set $new (call $wide_copy (local.get $object)))
  (if (i32.eqz (local.get $new)) (then (return (local.get $object))))
  (call $_Py_DecRef (local.get $object))
  (select (i32.const 0) (local.get $new) (i32.eq (local.get $new) (i32.const -1))))

;; a result for whoever calls. Bit k of $which: item k of a tuple is widened; bit 31: so is what is no tuple
(func $for_people (param $object i32) (param $which i32) (result i32) (local $k i32) (local $new i32)
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (if (i32.eq (i32.load offset=4 (local.get $object)) (i32.const {int32})) (then
    (if (i32.lt_s (local.get $which) (i32.const 0)) (then (return (call $widened (local.get $object)))))))  ;; for everybody
  (if (i32.eqz (call $is_for_people)) (then (return (local.get $object))))
  (if (i32.eqz (call $PyType_IsSubtype (i32.load offset=4 (local.get $object)) (i32.const {tuple}))) (then
    (if (i32.lt_s (local.get $which) (i32.const 0)) (then (return (call $widened (local.get $object)))))
    (return (local.get $object))))
  (if (i32.ne (i32.load (local.get $object)) (i32.const 1)) (then (return (local.get $object))))
  (local.set $k (call $PyTuple_Size (local.get $object)))
  (loop $next
    (if (i32.gt_s (local.get $k) (i32.const 0)) (then
      (local.set $k (i32.sub (local.get $k) (i32.const 1)))
      (br_if $next (i32.gt_u (local.get $k) (i32.const 30)))
      (br_if $next (i32.eqz (i32.and (i32.shr_u (local.get $which) (local.get $k)) (i32.const 1))))
      (local.set $new (call $wide_copy (call $PyTuple_GetItem (local.get $object) (local.get $k))))
      (br_if $next (i32.eqz (local.get $new)))
      (if (i32.eq (local.get $new) (i32.const -1)) (then
        (call $_Py_DecRef (local.get $object))
        (return (i32.const 0))))
      (drop (call $PyTuple_SetItem (local.get $object) (local.get $k) (local.get $new)))
      (br $next))))
  (local.get $object))

;; numpy's functions: guest/integers.py writes into __dict__ of those that return positions which of their results are
(func $dispatcher_vectorcall (export "dispatcher_vectorcall")
    (param $self i32) (param $args i32) (param $count i32) (param $names i32) (result i32) (local $object i32) (local $which i32)
  (local.set $object (call $original_dispatcher_vectorcall
    (local.get $self) (local.get $args) (local.get $count) (local.get $names)))
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (if (i32.eqz (i32.load offset=12 (local.get $self))) (then (return (local.get $object))))
  (local.set $which (call $PyDict_GetItemWithError (i32.load offset=12 (local.get $self)) (i32.const {return})))
  (if (i32.eqz (local.get $which)) (then (return (local.get $object))))
  (call $for_people (local.get $object) (call $PyLong_AsLong (local.get $which))))

;; its methods
{methods}

;; RandomState's own algorithm has 32 bits; what does not fit goes to the one of Generator, which is another one
(func $legacy_random_hypergeometric (export "legacy_random_hypergeometric")
    (param $bits i32) (param $good i64) (param $bad i64) (param $sample i64) (result i64)
  (if (result i64) (i64.lt_s (i64.add (local.get $good) (local.get $bad)) (i64.const 0x7fffffff))  ;; a sample is less
    (then (call $original_legacy_random_hypergeometric
      (local.get $bits) (local.get $good) (local.get $bad) (local.get $sample)))
    (else (call $random_hypergeometric (local.get $bits) (local.get $good) (local.get $bad) (local.get $sample)))))

;; 63 bits of RandomState.tomaxint, where C's long has 31
(func $npy_legacy_random_positive_int (export "npy_legacy_random_positive_int") (param $bits i32) (result i64)
  (i64.shr_u (call $random_interval (local.get $bits) (i64.const -1)) (i64.const 1)))

;; counts, and what RandomState draws: for everybody
{draws}
