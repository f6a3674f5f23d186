"""Where the published data sets come from: their pages, and their files with sizes and checksums.

A file without `url` has to be asked for or lies where only a browser gets it: `prepare --archive` takes it.
Sizes and checksums stand here where they are publicly known; where they are not, the counts of `PUBLISHED`
judge.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    name: str  # as it is published
    url: str = ""
    size: int | None = None
    checksum: str = ""  # "md5:…" or "sha256:…"
    place: str = "."  # where in the folder of the release it is unpacked, or laid if it is no archive


@dataclass(frozen=True)
class Release:
    """A way in which a data set is published: all of `files` are needed."""

    home: str
    files: tuple[File, ...]
    packed: tuple[str, ...] = ()  # archives in the data set's folder that are to be unpacked too

    @property
    def fetchable(self) -> bool:
        return all(file.url for file in self.files)


CIFAR = "https://www.cs.toronto.edu/~kriz/"
CARS = "https://ai.stanford.edu/~jkrause/cars/car_dataset.html"  # its links to the images are dead
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"  # the original host sends these files no more
DEEP_FASHION = "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html"
CIFAR_100 = Release(
    f"{CIFAR}cifar.html",
    (
        File(
            "cifar-100-binary.tar.gz",
            f"{CIFAR}cifar-100-binary.tar.gz",
            168_513_733,
            "md5:03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
)


def _mnist(name: str, size: int, checksum: str) -> File:
    return File(name, MNIST + name, size, f"sha256:{checksum}")


# The first release of a data set that can be fetched is fetched.
RELEASES: dict[str, tuple[Release, ...]] = {
    "cub": (
        Release(
            "https://data.caltech.edu/records/65de6-vp158",
            (
                File(
                    "CUB_200_2011.tgz",
                    "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                    1_150_585_339,
                    "md5:97eceeb196236b17998738112f37df78",
                ),
            ),
        ),
    ),
    "cars196": (
        Release(
            CARS,
            (
                File("car_ims.tgz", checksum="md5:d5c8f0aa497503f355e17dc7886c3f14"),
                File("cars_annos.mat", checksum="md5:b407c6086d669747186bd1d764ff9dbc"),
            ),
        ),
        Release(
            CARS,
            (
                File("cars_train.tgz", checksum="md5:065e5b463ae28d29e77c1b4b166cfe61"),
                File("cars_test.tgz", checksum="md5:4ce7ebf6a94d07f1952d94dd34c4d501"),
                File("car_devkit.tgz", checksum="md5:c3b158d763b6e2245038c8ad08e45376"),
                File(
                    "cars_test_annos_withlabels.mat",
                    checksum="md5:b0a2b23655a3edd16d84508592a98d10",
                    place="devkit",
                ),
            ),
        ),
    ),
    "sop": (
        Release(
            "https://cvgl.stanford.edu/projects/lifted_struct/",  # sent by plain FTP only
            (File("Stanford_Online_Products.zip", checksum="md5:7f73d41a2f44250d4779881525aea32e"),),
        ),
    ),
    "inshop": (
        Release(
            DEEP_FASHION,
            (File("img.zip", place="Img"), File("list_eval_partition.txt", place="Eval")),
        ),
        # the folder as the drive packs it, with the images packed once more inside
        Release(DEEP_FASHION, (File("In-shop Clothes Retrieval Benchmark.zip"),), packed=("Img/img.zip",)),
    ),
    "vehicleid": (
        Release("https://www.pkuml.org/resources/pku-vehicleid.html", (File("VehicleID_V1.0.zip"),)),
    ),
    "cifar10": (
        Release(
            f"{CIFAR}cifar.html",
            (
                File(
                    "cifar-10-binary.tar.gz",
                    f"{CIFAR}cifar-10-binary.tar.gz",
                    170_052_171,
                    "md5:c32a1d4ab5d03f1284b67883e8d87530",
                ),
            ),
        ),
    ),
    "cifar100": (CIFAR_100,),
    "cifar_collage": (CIFAR_100,),
    "mnist": (
        Release(
            "http://yann.lecun.com/exdb/mnist/",
            (
                _mnist(
                    "train-images-idx3-ubyte.gz",
                    9_912_422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                _mnist(
                    "train-labels-idx1-ubyte.gz",
                    28_881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                _mnist(
                    "t10k-images-idx3-ubyte.gz",
                    1_648_877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                _mnist(
                    "t10k-labels-idx1-ubyte.gz",
                    4_542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
        ),
    ),
}
