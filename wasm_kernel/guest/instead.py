"""Packages that cannot run here, and what the image offers for the same purpose. Guest and host both load it."""

_BY_NAME = "it connects only to hosts that you allow with `%session allow HOST`"

# Packages with compiled code, by the name they are installed by; "" where nothing here serves the same purpose.
COMPILED: dict[str, str] = {
    **dict.fromkeys(("polars", "polars-runtime-32", "vaex", "modin", "fireducks", "datatable"), "pandas is there"),
    **dict.fromkeys(
        ("torch", "torchvision", "torchaudio", "tensorflow", "tensorflow-cpu", "keras", "jax", "jaxlib", "mxnet"),
        "scikit-learn is there",
    ),
    **dict.fromkeys(("xgboost", "lightgbm", "catboost", "onnxruntime", "gensim"), "scikit-learn is there"),
    **dict.fromkeys(("psycopg2", "psycopg2-binary", "psycopg-binary", "asyncpg"), "`%pip install pg8000` can be used"),
    "mysqlclient": "`%pip install pymysql` can be used",
    **dict.fromkeys(("duckdb", "pymssql", "pyodbc", "pymongo"), "sqlite3 is there"),
    **dict.fromkeys(
        ("pyarrow", "fastparquet"), "in the sandbox pandas reads and writes CSV, JSON and Excel, but not Parquet"
    ),
    **dict.fromkeys(("h5py", "tables", "netcdf4"), "numpy.savez, pickle and sqlite3 are there"),
    **dict.fromkeys(("opencv-python", "opencv-python-headless", "scikit-image"), "pillow and scipy.ndimage are there"),
    **dict.fromkeys(("numba", "cython", "cffi", "llvmlite", "cupy"), "numpy and scipy are there"),
    **dict.fromkeys(("cvxpy", "ortools"), "scipy.optimize is there"),
    **dict.fromkeys(("orjson", "ujson"), "json is there"),
    **dict.fromkeys(("pydantic-core", "msgspec"), "attrs and dataclasses are there"),
    **dict.fromkeys(("psutil", "pyzmq", "tornado", "grpcio"), "the sandbox has no processes, and no servers"),
    **dict.fromkeys(("tokenizers", "safetensors", "sentencepiece"), ""),
    **dict.fromkeys(("shapely", "pyproj", "rasterio", "fiona", "gdal"), ""),
    **dict.fromkeys(("cryptography", "pycryptodome", "rpy2", "pygame", "pyqt5", "pyside6"), ""),
    "selectolax": "lxml and beautifulsoup4 are there",
    "pymupdf": "pypdf is there",
    "spacy": "regex and scikit-learn are there",
    "igraph": "networkx is there",
}

# These install, but do not work fully.
BUT: dict[str, str] = {
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib3", "openai", "boto3", "yfinance"), _BY_NAME),
    **dict.fromkeys(("pymysql", "pg8000", "redis"), _BY_NAME),
    "psycopg": "it needs a compiled library; `%pip install pg8000` can be used",
    "pydantic": "newer versions are compiled and cannot run here",
}

# Well-known packages in pure Python: nobody means a file of their own.
PURE = frozenset(
    """
    altair bokeh cowsay dash dask einops emoji faker flask folium fsspec great_tables holoviews humanize hvplot itables
    lifelines loguru missingno mlxtend nltk optuna pandas_datareader panel pint plotly plotnine prettytable
    pygal pytest rich simpy sqlalchemy textblob tenacity typer xarray
    """.split()
)

# What is imported by another name than it is installed by.
INSTALLED_AS: dict[str, str] = {
    "cv2": "opencv-python",
    "skimage": "scikit-image",
    "fitz": "pymupdf",
    "zmq": "pyzmq",
    "MySQLdb": "mysqlclient",
    "osgeo": "gdal",
    "Crypto": "pycryptodome",
    "imblearn": "imbalanced-learn",
    "dotenv": "python-dotenv",
    "docx": "python-docx",
    "pptx": "python-pptx",
    "git": "GitPython",
    "serial": "pyserial",
    "pkg_resources": "setuptools",
    "distutils": "setuptools",
}


def cannot_run(name: str) -> str:
    """One sentence about a compiled package, by the name it is installed by; empty for others."""
    more = COMPILED.get(name.lower().replace("_", "-"))
    if more is None:
        return ""
    return f"{name} is compiled code, which cannot run in the sandbox" + (f"; {more}" if more else "")
