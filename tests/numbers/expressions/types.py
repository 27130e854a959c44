# Which type is meant: names, aliases, limits, promotion, formats.
import array, ctypes, io, pickle, struct
import numpy as np

i8, i32, u8, u32 = (np.array([100, 100, 100], t) for t in ("int8", "int32", "uint8", "uint32"))
flags, floats, small = np.array([True, False, True]), np.array([1.5, 2.5, -3.5]), np.array([3, 1, 2])


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def loaded(array):
    return np.load(io.BytesIO(saved(array)))


np.dtype(int)
np.dtype("int")
np.dtype("uint")
np.dtype("long")
np.dtype("ulong")
np.dtype(np.int_)
np.dtype(np.uint)
np.dtype("int_")
np.dtype(np.long)
np.dtype(np.ulong)
np.dtype("l")
np.dtype("L")
np.dtype("q")
np.dtype("i8")
np.dtype("i4")
np.dtype(">i8")
np.dtype(np.intp)
np.dtype("p")
np.dtype("intp")
np.dtype(ctypes.c_int64)
np.dtype(ctypes.c_int32)
np.dtype([("a", int), ("b", float)])
np.dtype({"names": ["a"], "formats": [int]}).itemsize
np.dtype("int, float").itemsize
np.dtype((int, (2, 3))).base
np.dtype(int).itemsize
np.dtype(int).num == np.dtype(np.int64).num
np.dtype(int) == np.int64
np.dtype(int) is np.dtype("int64")
np.dtype(int).name
np.dtype(int).str
np.dtype(int).kind
np.int_ is np.int64
np.uint is np.uint64
np.int_.__name__
np.intc.__name__
np.longlong.__name__
issubclass(np.int64, np.signedinteger)
issubclass(np.int64, np.int_)
isinstance(np.array([1])[0], np.int_)
isinstance(np.array([1])[0], np.int64)
isinstance(np.arange(3).sum(), np.int_)
np.issubdtype(np.array([1]).dtype, int)
np.issubdtype(np.array([1]).dtype, np.int_)
np.issubdtype(int, np.int64)
np.issubdtype(np.int32, int)
np.isdtype(np.array([1]).dtype, "signed integer")
np.iinfo(int).max
np.iinfo(int).bits
np.iinfo(np.int_).min
np.iinfo(np.uint).max
np.iinfo("int").max
np.iinfo(np.array([1]).dtype).max
np.result_type(int)
np.result_type(1)
np.result_type(1, True)
np.result_type(np.int8, 1)
np.result_type(np.bool_, 1)
np.result_type(np.int32, int)
np.result_type(np.uint32, int)
np.result_type(np.uint64, int)
np.result_type(np.int32, np.int64)
np.result_type(np.float32, int)
np.result_type(np.float32, np.int64)
np.result_type(np.int32, 2**31)
np.promote_types(bool, int)
np.promote_types("i4", int)
np.promote_types("u4", "i4")
np.promote_types(int, float)
np.promote_types(int, "S4")
np.can_cast(int, np.int32)
np.can_cast(np.int32, int)
np.can_cast(int, float)
np.can_cast(int, np.int64)
np.can_cast(np.uint32, int)
np.can_cast(np.int64, np.int32, "same_kind")
np.min_scalar_type(10)
np.min_scalar_type(-2**40)
np.min_scalar_type(2**63)
np.common_type(np.array([1]), np.array([2]))
np.mintypecode(["i", "f"])
np.typename("q")
np.sctypeDict["int"]
np.sctypeDict["uint"]
np.sctypeDict["int_"]
np.sctypeDict["long"]
np.int_(3)
np.int_(2**40)
np.int_(3.7)
np.int_("12")
np.uint(2**40)
np.uint(2**64 - 1)
np.int64(2**62) + np.int64(1)
np.int_(5).nbytes
np.int_(2**40).item()
np.int_(7).bit_count()
np.int_(2**40).bit_count()
hash(np.int_(2**40)) == hash(2**40)
int(np.int_(-2**40))
repr(np.int_(5))
repr(np.array([1, 2]))
repr(np.arange(3))
repr(np.array([1, 2], np.int64))
repr(np.array([1, 2], np.int32))
repr(np.array([], int))
repr(np.array([2**40]))
str(np.array([1, 2]))
repr(np.zeros(2, [("a", int)]))
np.array2string(np.array([2**40, 1]))
np.base_repr(2**40, 36)
np.binary_repr(-3)
np.binary_repr(-3, width=8)
np.binary_repr(np.int64(2**40))
memoryview(np.array([1, 2])).itemsize
memoryview(np.array([1, 2])).nbytes
memoryview(np.array([1, 2], np.int64)).tolist()
memoryview(np.array([2**40])).tobytes().hex()
np.array(memoryview(array.array("q", [1, 2**40])))
np.frombuffer(array.array("q", [1, 2**40]), int)
np.frombuffer(struct.pack("<2q", 1, 2**40), dtype=int)
np.frombuffer(struct.pack("<2q", 1, 2**40), "i8")
np.array(array.array("i", [1, 2]))
np.array(array.array("q", [1, 2]))
np.array(array.array("b", [1, 2]))
struct.pack("<q", np.array([2**40])[0]).hex()
struct.unpack("<q", np.array([2**40]).tobytes())
np.array([1, 2]).ctypes.data_as(ctypes.POINTER(ctypes.c_int64))[1]
np.ctypeslib.as_array((ctypes.c_int64 * 2)(1, 2**40))
np.ctypeslib.as_ctypes_type(np.dtype(int)).__name__ in ("c_long", "c_longlong")
ctypes.sizeof(np.ctypeslib.as_ctypes_type(np.dtype(int)))
np.array([1, 2]).itemsize
np.array([1, 2]).nbytes
np.array([1, 2]).strides
np.ones((2, 3), int).strides
np.array([1, 2]).tobytes().hex()
np.array([1, 2]).__array_interface__["typestr"]
np.array([1, 2]).__array_interface__["descr"]
np.array([1, 2]).__reduce__()[2][2]
pickle.dumps(np.arange(3), 2).hex()
pickle.dumps(np.arange(3), 5).hex()
pickle.dumps(np.int_(2**40), 5).hex()
pickle.dumps(np.array([1, 2], np.int32), 5).hex()
pickle.dumps(np.dtype(int), 2).hex()
pickle.loads(pickle.dumps(np.arange(3)))
pickle.loads(pickle.dumps(np.arange(3, dtype=np.int32)))
pickle.loads(bytes.fromhex("80049596000000000000008c166e756d70792e5f636f72652e6d756c74696172726179948c0c5f7265636f6e7374727563749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b014b02859468038c0564747970659493948c02693894898887945294284b038c013c944e4e4e4affffffff4affffffff4b007494628943100100000000000000000000000001000094749462" + "2e"))
saved(np.arange(3)).hex()
saved(np.arange(3, dtype=np.int32)).hex()
saved(np.array([[1, 2], [3, 2**40]])).hex()
loaded(np.array([1, 2**40]))
loaded(np.array([1, 2], np.int32))
loaded(np.array([1, 2], ">i8"))
np.lib.format.header_data_from_array_1_0(np.arange(3))
np.lib.format.dtype_to_descr(np.dtype(int))
np.lib.format.descr_to_dtype("<i8")
np.dtype(int).newbyteorder().str
np.array([1, 2], ">i8").sum()
np.array([1, 2], dtype="timedelta64[s]").view(int)
np.array([3], int).view(np.uint64)
np.array([3], int).view("i4")
np.rec.fromarrays([[1, 2], [3.5, 4.5]], names="a,b").dtype
np.rec.array([(1, 2.5)], names="a,b").a
np.array([(1, 2.5)], dtype="int, float")["f0"]
np.array([(1, 2.5)], dtype=[("a", int), ("b", float)])["a"]
np.dtypes.Int64DType is type(np.dtype(int))
type(np.dtype(int)).__name__
np.array([1]).dtype.char in "lq"
np.array([1], dtype=np.dtypes.Int64DType())
np.array([1, 2]).__dlpack_device__()[0]
np.from_dlpack(np.array([1, 2**40]))
np.__array_namespace_info__().default_dtypes()["integral"]
np.__array_namespace_info__().default_dtypes()["real floating"]
