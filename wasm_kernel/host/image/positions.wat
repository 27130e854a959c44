;; Positions and counts (np.intp) have 32 bits here, but people's integers have 64: what goes from one to the other.
;; `int64.py` fills in what is in braces, imports what is called and not here, and lays the exported functions over the
;; runtime's of the same name; $original_NAME is what was there before.
;;
;; An array:  descr at 28.  A descr: type_num at 16.  An index of a[...]: object, value, type, 12 bytes in all.

;; whether an array has integers of which some are no positions: uint (6), ulong (8), longlong (9), ulonglong (10)
(func $is_wide (param $array i32) (result i32) (local $type i32)
  (local.set $type (i32.load offset=16 (i32.load offset=28 (local.get $array))))
  (if (result i32) (i32.gt_u (local.get $type) (i32.const 10))
    (then (i32.const 0))
    (else (i32.and (i32.shr_u (i32.const 0x740) (local.get $type)) (i32.const 1)))))

;; a copy of the array as positions, or 0 and an exception if one of its numbers is none
(func $narrowed (param $array i32) (param $exception i32) (result i32) (local $new i32)
  (local.set $new (call $PyArray_NewLikeArray
    (local.get $array) (i32.const 2) (call $PyArray_DescrFromType (i32.const 7)) (i32.const 0)))  ;; K order
  (if (i32.eqz (local.get $new)) (then (return (i32.const 0))))
  (if (i32.ge_s (call $PyArray_AssignArray (local.get $new) (local.get $array) (i32.const 0) (i32.const 68)) (i32.const 0))
    (then (return (local.get $new))))  ;; 68: "same_value"
  (call $_Py_DecRef (local.get $new))
  (if (call $PyErr_ExceptionMatches (i32.load (i32.const {ValueError}))) (then (call $raise (local.get $exception))))
  (i32.const 0))

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

;; counts and single positions that people get: as 64 bits

(func $arr_bincount (export "arr_bincount")
    (param $self i32) (param $args i32) (param $count i32) (param $names i32) (result i32) (local $array i32) (local $new i32)
  (local.set $array (call $original_arr_bincount (local.get $self) (local.get $args) (local.get $count) (local.get $names)))
  (if (i32.eqz (local.get $array)) (then (return (i32.const 0))))
  (if (i32.ne (i32.load offset=16 (i32.load offset=28 (local.get $array))) (i32.const 7))  ;; with weights
    (then (return (local.get $array))))
  (local.set $new (call $PyArray_CastToType (local.get $array) (call $PyArray_DescrFromType (i32.const 9)) (i32.const 0)))
  (call $_Py_DecRef (local.get $array))
  (local.get $new))

(func $wide_scalar (param $object i32) (result i32) (local $place i32)
  (if (i32.eqz (local.get $object)) (then (return (i32.const 0))))
  (if (i32.ne (i32.load offset=4 (local.get $object)) (i32.const {int32})) (then (return (local.get $object))))
  (local.set $place (i32.sub (global.get $__stack_pointer) (i32.const 16)))
  (global.set $__stack_pointer (local.get $place))
  (i64.store (local.get $place) (i64.load32_s offset=8 (local.get $object)))
  (call $_Py_DecRef (local.get $object))
  (local.set $object (call $int64_scalar (local.get $place)))
  (global.set $__stack_pointer (i32.add (local.get $place) (i32.const 16)))
  (local.get $object))

(func $int64_scalar (param $place i32) (result i32) (local $descr i32) (local $new i32)
  (local.set $descr (call $PyArray_DescrFromType (i32.const 9)))
  (local.set $new (call $PyArray_Scalar (local.get $place) (local.get $descr) (i32.const 0)))
  (call $_Py_DecRef (local.get $descr))
  (local.get $new))

(func $array_argmax (export "array_argmax")
    (param $self i32) (param $args i32) (param $count i32) (param $names i32) (result i32)
  (call $wide_scalar (call $original_array_argmax (local.get $self) (local.get $args) (local.get $count) (local.get $names))))

(func $array_argmin (export "array_argmin")
    (param $self i32) (param $args i32) (param $count i32) (param $names i32) (result i32)
  (call $wide_scalar (call $original_array_argmin (local.get $self) (local.get $args) (local.get $count) (local.get $names))))

(func $array_searchsorted (export "array_searchsorted")
    (param $self i32) (param $args i32) (param $count i32) (param $names i32) (result i32)
  (call $wide_scalar (call $original_array_searchsorted (local.get $self) (local.get $args) (local.get $count) (local.get $names))))
