"""Which specs the golden vectors cover, family by family: every example that a family gives, and sizes at its limits."""
from families import arrays

RAIDQ_K = (1, 2, 4, 16, 21, 63, 92, 125, 164)


def _raidq():
    """Every option at every listed k that its limit allows; the limits are those that facts.json proves."""
    limits = [("3", "", 255), ("3", ",powers", 255), ("3", ",b=0x1d", 255), ("3", ",b=0xfc", 85),
              ("4", "", 92), ("4", ",x125", 125), ("4", ",x164", 164), ("4", ",x=02.8e", 107), ("4", ",x=08.d8", 113),
              ("4", ",powers", 21), ("4", ",b=0xe8", 27), ("4", ",b=0xfc", 33), ("4", ",sqrt", 21),
              ("4", ",cbrt", 63), ("4", ",cbrt=paper", 63), ("4", ",sixth", 63)]
    specs = []
    for m, option, most in limits:
        wanted = sorted({k for k in RAIDQ_K if k <= most} | ({most} if most in (27, 33, 85, 107, 113, 255) else set()))
        specs += [f"raidq:{k}+{m}{option}" for k in wanted]
    return specs


LCH_MOST = ((1, 255), (2, 254), (3, 252), (4, 252), (5, 248), (8, 248))

# Each word with the widest code of two and of three parities, or what of it is not too long to
# write down.
CRS = [f"crs:{size}{option}" for option in ("", ",orig") for size in ("1+1", "4+2", "6+3", "10+4", "8+6")]
CRS += [f"crs:{size},w={w}{option}" for option in ("", ",orig") for w, sizes in (
    (2, ("1+3", "2+2")), (3, ("3+2", "5+3", "4+4")), (4, ("5+1", "6+3", "10+4", "12+4")), (5, ("8+2", "9+3", "6+5")),
    (6, ("8+2", "7+4")), (7, ("8+2", "7+4"))) for size in sizes]
CRS += ["crs:3+2,w=2", "crs:7+2,w=3", "crs:15+2,w=4", "crs:31+2,w=5", "crs:63+2,w=6", "crs:127+2,w=7", "crs:255+2", "crs:62+2,w=6,orig",
        "crs:13+3,w=4", "crs:29+3,w=5", "crs:16+4", "crs:20+4", "crs:1+16", "crs:4+2,w=3,orig"]

SHEC_PAPER = ("4,2,4", "4,3,3", "6,4,3", "5,3,3", "7,4,3", "10,6,5", "1,1,1", "8,4,6", "12,6,12")
SHEC_CEPH = ("2,1,1", "4,3,2", "6,4,2", "6,4,3", "8,4,3", "8,6,3", "10,6,3", "10,6,5", "12,8,5", "12,8,8")

SPECS = {
    "raid0": [f"raid0:{k}" for k in (1, 2, 4, 5, 16)],
    "mirror": [f"mirror:{n}" for n in (2, 3, 4, 8)],
    "raid5": [f"raid5:{k}" for k in (1, 2, 3, 4, 8, 16, 255)],
    "raid6": [f"raid6:{k}" for k in (1, 2, 4, 8, 16, 255)],
    "raidq": _raidq() + ["raidq:8+3", "raidq:100+4,x125", "raidq:12+4,cbrt"],
    "cauchy": [f"cauchy:{k}+{m}" for m in range(1, 7) for k in (1, 4, 14, 251)] + ["cauchy:8+3", "cauchy:20+6"],
    "rs": [f"rs:{size}{option}" for option in ("", ",vandermonde", ",jerasure", ",backblaze", ",zfec", ",bch")
           for size in ("2+1", "4+2", "6+3", "10+4", "12+4", "16+4", "20+4")]
    + ["rs:5+5,vandermonde", "rs:21+4,vandermonde", "rs:32+3,vandermonde", "rs:12+8", "rs:12+8,jerasure",
       "rs:128+128", "rs:250+6,jerasure", "rs:6+4,jerasure", "rs:6+4,backblaze", "rs:100+20,backblaze", "rs:6+4,bch", "rs:100+20,bch",
       "rs:100+20,zfec", "rs:252+4,zfec", "rs:4+2,par1", "rs:10+3,par1", "rs:253+3,par1"],
    "lch": [f"lch:{k}+{m}" for m, most in LCH_MOST for k in (1, 4, 14, most)]
    + ["lch:8+4", "lch:12+4", "lch:20+8", "lch:240+9", "lch:192+33", "lch:128+65", "lch:128+128"],
    "crs": CRS,
    "shec": [f"shec:{size}" for size in SHEC_PAPER]
    + [f"shec:{size[:size.rindex(',')]},c={size[size.rindex(',') + 1:]}{t}" for size in SHEC_CEPH for t in ("", ",single")],
    "lrc": [f"lrc:{size}" for size in ("4,2,0", "6,2,0", "12,2,0", "2,1,1", "6,2,1", "12,3,1", "255,1,1",
                                       "4,2,2", "6,2,2", "6,3,2", "10,2,2", "12,2,2", "12,3,2", "12,4,2", "15,1,2", "34,17,2",
                                       "60,20,2", "170,85,2", "6,2,3", "12,2,3", "12,3,4", "10,5,5", "251,1,5")],
    "xorbas": [f"xorbas:{size}" for size in ("10,6,5", "4,4,2", "6,4,3", "12,6,6", "5,3,5", "20,9,4")],
    "slpg": [f"slpg:{size}" for size in ("6,4,3", "4,2,2", "6,3,2", "8,5,4", "5,2,5", "12,6,4")],
    "clay": [f"clay:{size}" for size in ("2,1,2", "2,2,3", "3,2,4", "4,2,4", "4,2,5", "3,3,4", "3,3,5", "5,2,6", "4,4,6", "6,3,8")],
    **{family: [f"{family}:{n}" for n in range(shape.least_disks, 25)] for family, shape in arrays.CONSTRUCTIONS.items()},
    "liberation": [f"liberation:{k}" for k in range(1, 14)]
    + [f"liberation:{k},w={w}" for k, w in ((1, 5), (2, 7), (3, 5), (4, 7), (5, 11), (8, 13), (10, 17), (2, 23), (3, 67))] + ["liberation:17", "liberation:29", "liberation:6,w=11"],
    "blaumroth": [f"blaumroth:{k}" for k in range(1, 13)]
    + [f"blaumroth:{k},w={w}" for k, w in ((1, 6), (2, 6), (3, 10), (4, 12), (5, 10), (8, 12), (9, 16), (2, 22), (3, 66))] + ["blaumroth:16", "blaumroth:28", "blaumroth:4,w=10"]
    + [f"blaumroth:{k},w=7" for k in range(1, 8)],
    "liber8tion": [f"liber8tion:{k}" for k in range(1, 9)],
    "raidp": [f"raidp:{n}{option}" for n in (3, 4, 5, 6, 8, 12, 16) for option in ("", ",weighted", ",stack=2")],
}
SPECS["dcode"] += ["dcode:9,raw", "dcode:15,raw"]
SPECS["xcode"] += ["xcode:9,raw", "xcode:15,raw"]

# Spec texts that are valid but not canonical, with their canonical form.
SPELLINGS = [
    ("raidq:4+4,x92", "raidq:4+4"), ("rs:4+2,cauchy1", "rs:4+2"), ("shec:6,4,c=3,multiple", "shec:6,4,c=3"),
    ("shec:6,4,single,c=3", "shec:6,4,c=3,single"), ("raidp:5,stack=1", "raidp:5"), ("raidp:5,weighted,stack=1", "raidp:5,weighted"),
    ("raidp:5,stack=2,weighted", "raidp:5,stack=2"), ("raidp:5,weighted,stack=2", "raidp:5,stack=2"),
    ("liberation:3,w=3", "liberation:3"), ("liberation:4,w=5", "liberation:4"), ("liberation:8,w=11", "liberation:8"), ("liberation:1,w=3", "liberation:1"),
    ("blaumroth:4,w=4", "blaumroth:4"), ("blaumroth:5,w=6", "blaumroth:5"), ("blaumroth:7,w=10", "blaumroth:7"), ("blaumroth:1,w=4", "blaumroth:1"),
    ("crs:4+2,w=8", "crs:4+2"), ("crs:4+2,w=8,orig", "crs:4+2,orig"), ("crs:4+2,orig,w=4", "crs:4+2,w=4,orig"),
]

# Texts that are no spec or name no code, with the reason.
REFUSED = [
    ("", "empty"), ("raid6", "no arguments"), ("raid6:", "no arguments"), ("raid7:4", "unknown family"),
    ("RAID6:4", "upper case"), ("raid6: 4", "blank"), ("raid6:04", "leading zero"), ("raid6:0", "no data"), ("raid6:-1", "sign"),
    ("raid6:4,", "empty argument"), ("raid6:4,fast", "unknown option"), ("raid6:4+2", "takes a count"), ("raid6:256", "a has order 255"),
    ("mirror:1", "at least two columns"), ("raid0:0", "no data"), ("raid5:0", "no data"),
    ("raidq:4", "takes k+m"), ("raidq:4,4", "takes k+m"), ("raidq:4+2", "3 or 4 parities"), ("raidq:4+5", "3 or 4 parities"),
    ("raidq:256+3", "limit 255"), ("raidq:256+3,powers", "limit 255"), ("raidq:86+3,b=0xfc", "0xfc has order 85"), ("raidq:93+4", "limit 92"),
    ("raidq:126+4,x125", "limit 125"), ("raidq:165+4,x164", "limit 164"), ("raidq:22+4,powers", "limit 21"), ("raidq:22+4,sqrt", "limit 21"),
    ("raidq:28+4,b=0xe8", "limit 27"), ("raidq:34+4,b=0xfc", "limit 33"), ("raidq:64+4,cbrt", "limit 63"), ("raidq:64+4,cbrt=paper", "limit 63"),
    ("raidq:64+4,sixth", "limit 63"), ("raidq:4+4,b=0x00", "b must not be 0"), ("raidq:2+4,b=0x01", "all powers of 1 are equal"),
    ("raidq:4+3,x92", "needs 4 parities"), ("raidq:4+4,powers,sqrt", "options exclude each other"), ("raidq:4+4,x=00.01", "X^2 = 1 has the root 1"),
    ("raidq:4+4,x=08", "no c"), ("raidq:4+4,cbrt=other", "unknown value"),
    ("cauchy:4+7", "at most 6 parities"), ("cauchy:252+2", "at most 251 data"), ("cauchy:4", "takes k+m"),
    ("rs:200+57", "more than 256 columns"), ("rs:22+4,vandermonde", "singular minor"), ("rs:6+5,vandermonde", "singular minor"),
    ("rs:4+2,vandermonde,jerasure", "options exclude each other"), ("rs:4+2,cauchy2", "unknown option"), ("rs:4+2,backblaze,bch", "options exclude each other"), ("rs:250+7,backblaze", "more than 256 columns"),
    ("rs:250+6,bch", "more than 255 columns"), ("rs:10+4,par1", "at most 3 parities"), ("rs:250+7,zfec", "more than 256 columns"), ("rs:4+0", "no parity"),
    ("lch:4", "takes k+m"), ("lch:4,4", "takes k+m"), ("lch:0+4", "no data"), ("lch:4+0", "no parity"), ("lch:4+4,fast", "unknown option"),
    ("lch:256+1", "limit 255"), ("lch:255+2", "limit 254"), ("lch:253+3", "3 parities take 4 points: limit 252"), ("lch:253+4", "limit 252"),
    ("lch:249+5", "5 parities take 8 points: limit 248"), ("lch:129+65", "65 parities take 128 points: limit 128"), ("lch:1+129", "at most 128 parities"),
    ("crs:4", "takes k+m"), ("crs:4,2", "takes k+m"), ("crs:0+2", "no data"), ("crs:4+0", "no parity"), ("crs:4+2,good", "unknown option"),
    ("crs:4+2,w=1", "words of 2 to 32 bits"), ("crs:4+2,w=33", "words of 2 to 32 bits"), ("crs:4+9,w=16", "at most 128 parity rows"), ("crs:4+2,w=04", "leading zero"),
    ("crs:4+2,w=4,w=5", "w is given twice"), ("crs:4+2,orig,orig", "given twice"), ("crs:4+2,w", "w without a value"), ("crs:4+2,orig=1", "orig takes no value"),
    ("crs:13+4,w=4", "limit 12"), ("crs:14+3,w=4", "limit 13"), ("crs:16+2,w=4", "limit 15"), ("crs:15+2,w=4,orig", "limit 14"), ("crs:16+1,w=4", "limit 15"),
    ("crs:4+2,w=2", "limit 3"), ("crs:256+2", "limit 255"), ("crs:255+2,orig", "limit 254"), ("crs:253+4", "limit 252"), ("crs:4+17", "at most 16 parities"), ("crs:4+17,w=6,orig", "at most 16 parities"),
    ("liberation:4+2", "takes k"), ("liberation:0", "no data"), ("liberation:65", "at most 64 data"), ("liberation:2,w=2", "more than two rows"), ("liberation:2,w=1", "no prime"),
    ("liberation:2,w=4", "no prime"), ("liberation:2,w=9", "no prime"), ("liberation:4,w=8", "no prime"), ("liberation:8,w=7", "k > w"), ("liberation:8,w=263", "at most 257 rows"),
    ("liberation:4,w=05", "leading zero"), ("liberation:4,w=5,w=7", "w is given twice"), ("liberation:4,w", "w without a value"), ("liberation:4,7", "w is no count"), ("liberation:4,orig", "unknown option"),
    ("blaumroth:4+2", "takes k"), ("blaumroth:0", "no data"), ("blaumroth:65", "at most 64 data"), ("blaumroth:2,w=2", "more than two rows"), ("blaumroth:2,w=1", "more than two rows"),
    ("blaumroth:2,w=3", "4 is no prime"), ("blaumroth:2,w=5", "6 is no prime"), ("blaumroth:4,w=8", "9 is no prime"), ("blaumroth:4,w=11", "12 is no prime"), ("blaumroth:7,w=6", "k > w"),
    ("blaumroth:8,w=7", "k > w"), ("blaumroth:8,w=67", "68 is no prime"), ("blaumroth:8,w=262", "at most 256 rows"), ("blaumroth:4,w=06", "leading zero"), ("blaumroth:4,w=6,w=10", "w is given twice"),
    ("blaumroth:4,w", "w without a value"), ("blaumroth:4,6", "w is no count"), ("blaumroth:4,orig", "unknown option"), ("blaum_roth:4", "unknown family"), ("blaum-roth:4", "unknown family"),
    ("liber8tion:4+2", "takes k"), ("liber8tion:0", "no data"), ("liber8tion:9", "at most 8 data"), ("liber8tion:4,w=8", "w is always 8"), ("liber8tion:4,8", "takes k alone"),
    ("liberation8:4", "unknown family"),
    ("shec:4,3", "neither l nor c"), ("shec:4,3,5", "l > k"), ("shec:4,5,3", "m > k"), ("shec:4,3,3,single", "single needs c="), ("shec:4,3,c=4", "c > m"),
    ("shec:4,3,c=0", "c starts at 1"), ("shec:13,4,c=2", "k > 12"), ("shec:12,9,c=2", "k + m > 20"),
    ("lrc:12,5,2", "12 is no multiple of 5"), ("lrc:12,2", "g is missing"), ("lrc:12,0,2", "no groups"), ("lrc:12,2,6", "at most 5 globals"),
    ("lrc:32,2,2", "groups of 16 for g=2"), ("lrc:72,18,2", "18 groups of 4 for g=2"), ("lrc:172,86,2", "86 groups of 2 for g=2"),
    ("lrc:256,1,1", "a group of 256 for g=1"), ("lrc:252,2,3", "252 data for g=3"),
    ("xorbas:10,6,4", "10 is no multiple of 4"), ("xorbas:10,3,5", "only one Reed-Solomon parity left"), ("slpg:6,4,4", "6 is no multiple of 4"),
    ("clay:4,2", "d is missing"), ("clay:4+2,5", "takes counts"), ("clay:1,2,2", "k < 2"), ("clay:4,0,4", "no parity"), ("clay:4,2,3", "d < k"),
    ("clay:4,2,6", "d > k + m - 1"), ("clay:20,4,23", "4^6 planes"), ("clay:253,2,253", "more than 254 nodes"), ("clay:4,2,5,x", "no option"),
    ("dcode:3", "at least 4 disks"), ("rdp:2", "at least 3 disks"), ("evenodd:2", "at least 3 disks"), ("hcode:3", "at least 4 disks"),
    ("hdp:3", "at least 4 disks"), ("xcode:3", "at least 4 disks"), ("dcode:8,raw", "even n"), ("dcode:3,raw", "at least 5"),
    ("rdp:7,raw", "raw is for dcode and xcode"), ("raidp:2", "at least 3 disks"), ("raidp:4,stack=3", "stack is 1 or 2"),
    ("raidp:4,weighted,weighted", "given twice"),
]
