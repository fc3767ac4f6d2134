//! Transform text: the forms that users write, the recorded form, and error messages.

use drystone_transform::stats::ScalarKind;
use drystone_transform::{Chain, ConfigValue, ListItem};

#[test]
fn the_recorded_text_makes_the_same_chain() {
    for (given, recorded) in [
        ("", "identity"),
        ("  ", "identity"),
        ("none", "identity"),
        ("identity", "identity"),
        ("zstd", "zstd:3"),
        ("zstd:0", "zstd:3"),
        ("ZSTD:3", "zstd:3"),
        ("zstd:level=-7", "zstd:-7"),
        ("zstd : 22", "zstd:22"),
        ("shuffle,zstd:1", "shuffle,zstd:1"),
        (" shuffle:8 , identity, zstd:1 ", "shuffle:8,zstd:1"),
    ] {
        let chain = Chain::parse(given).unwrap();
        assert_eq!(chain.canonical(), recorded, "{given:?}");
        assert_eq!(Chain::parse(recorded).unwrap().canonical(), recorded);
        assert_eq!(chain.is_identity(), recorded == "identity");
    }
}

#[test]
fn every_level_from_minus_7_to_22_is_taken_and_no_other() {
    for level in -7..=22 {
        assert!(Chain::parse(&format!("zstd:{level}")).is_ok(), "{level}");
    }
    for level in [-8, 23, 1000, i64::MAX, i64::MIN] {
        let message = Chain::parse(&format!("zstd:{level}")).unwrap_err().to_string();
        assert_eq!(message, format!("codec zstd: level {level} is out of range, allowed are -7 to 22"));
    }
}

#[test]
fn messages_say_what_is_wrong_and_what_would_be_right() {
    for (text, message) in [
        ("zsdt:3", "unknown codec \"zsdt\" (did you mean \"zstd\"?); known are identity, shuffle, "),
        ("shufle,zstd", "unknown codec \"shufle\" (did you mean \"shuffle\"?); known are identity, "),
        ("qwerty", "unknown codec \"qwerty\"; known are identity, shuffle, "),
        ("zstd:fast", "codec zstd: expected a level as in zstd:3, found \"fast\""),
        ("zstd:3.5", "codec zstd: expected a level as in zstd:3, found 3.5"),
        ("zstd:3,4", "codec zstd: the level is given twice, the second time as 4"),
        ("shuffle:0", "codec shuffle: elementsize 0 is out of range, allowed are 1 to 65535"),
        ("none:1", "codec none: takes no parameters, found 1"),
        (
            "zstd,3",
            "transform \"zstd,3\", at byte 5: expected a codec name, found \"3\"; for a parameter write zstd:3",
        ),
        ("zstd,", "transform \"zstd,\", at byte 5: expected a codec name or a parameter, found nothing"),
    ] {
        let found = Chain::parse(text).unwrap_err().to_string();
        assert!(found.starts_with(message), "{text}: {found}");
    }
    let many = ["zstd"; 9].join(",");
    assert!(Chain::parse(&many).unwrap_err().to_string().contains("at most 8"));
}

fn object(name: &str, configuration: &[(&str, ConfigValue)]) -> ListItem {
    let configuration = configuration.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    ListItem::Object { name: name.into(), configuration }
}

#[test]
fn a_zarr_codec_list_means_what_it_means_in_zarr() {
    use ConfigValue::{Bool, Int, Text};
    let chain = Chain::parse_list(&[
        object("bytes", &[("endian", Text("little".into()))]),
        object("numcodecs.shuffle", &[("elementsize", Int(4))]),
        object("zstd", &[("level", Int(5)), ("checksum", Bool(false))]),
        object("crc32c", &[]),
    ]);
    assert_eq!(chain.unwrap().canonical(), "shuffle:4,zstd:5");
    let mixed = Chain::parse_list(&[ListItem::Text("shuffle".into()), object("zstd", &[])]);
    assert_eq!(mixed.unwrap().canonical(), "shuffle,zstd:3");
    assert!(Chain::parse_list(&[]).unwrap().is_identity());
}

#[test]
fn a_zarr_codec_that_would_mean_something_else_is_refused() {
    use ConfigValue::{Bool, Int, Nested, Text};
    for (item, part) in [
        (object("bytes", &[("endian", Text("big".into()))]), "stored little-endian"),
        (object("zstd", &[("checksum", Bool(true))]), "checksum is not kept"),
        (object("zstd", &[("level", Int(99))]), "out of range"),
        (object("zstd", &[("level", Nested)]), "not a value that it takes"),
        (object("zstd", &[("speed", Int(1))]), "found speed=1"),
        (object("zstandard", &[]), "unknown codec"),
        (object("shufffle", &[]), "did you mean \"shuffle\""),
    ] {
        let message = Chain::parse_list(std::slice::from_ref(&item)).unwrap_err().to_string();
        assert!(message.contains(part), "{item:?}: {message}");
    }
}

#[test]
fn zarr_names_of_other_libraries_mean_the_codecs_here() {
    use ConfigValue::{Int, Null, Text};
    for (items, recorded) in [
        (vec![object("gzip", &[("level", Int(5))])], "gzip:5"),
        (vec![object("numcodecs.zlib", &[("level", Int(1))])], "zlib:1"),
        (vec![object("numcodecs.bz2", &[("level", Int(9))])], "bzip2:9"),
        (vec![object("numcodecs.lz4", &[("acceleration", Int(1))])], "lz4"),
        (vec![object("numcodecs.lz4", &[("acceleration", Int(9))])], "lz4:acceleration=9"),
        (
            vec![object(
                "blosc",
                &[
                    ("typesize", Int(4)),
                    ("cname", Text("zstd".into())),
                    ("clevel", Int(3)),
                    ("shuffle", Text("bitshuffle".into())),
                    ("blocksize", Int(0)),
                ],
            )],
            "blosc:\"zstd\",3,\"bitshuffle\",typesize=4",
        ),
        (
            vec![object("numcodecs.blosc", &[("cname", Text("lz4".into())), ("shuffle", Int(-1))])],
            "blosc:\"lz4\",5,\"shuffle\"",
        ),
        (
            vec![object(
                "numcodecs.pcodec",
                &[
                    ("level", Int(8)),
                    ("mode_spec", Text("auto".into())),
                    ("delta_spec", Text("auto".into())),
                    ("paging_spec", Text("equal_pages_up_to".into())),
                    ("delta_encoding_order", Null),
                    ("equal_pages_up_to", Int(262_144)),
                ],
            )],
            "pcodec:8",
        ),
        (
            vec![object("numcodecs.delta", &[("dtype", Text("<i4".into())), ("astype", Text("<i4".into()))])],
            "delta:4",
        ),
        (vec![object("numcodecs.bitround", &[("keepbits", Int(7))])], "bitround:7"),
    ] {
        assert_eq!(Chain::parse_list(&items).unwrap().canonical(), recorded);
    }
    for (item, part) in [
        (object("numcodecs.delta", &[("dtype", Text("<f4".into()))]), "little-endian integers only"),
        (object("numcodecs.lz4", &[("acceleration", Int(70_000))]), "allowed are 0 to 65537"),
        (object("numcodecs.pcodec", &[("mode_spec", Text("classic".into()))]), "it takes level"),
        (object("blosc", &[("cname", Text("blosclz".into()))]), "use lz4 or zstd"),
    ] {
        let message = Chain::parse_list(std::slice::from_ref(&item)).unwrap_err().to_string();
        assert!(message.contains(part), "{item:?}: {message}");
    }
}

#[test]
fn a_chain_becomes_zarr_codecs_and_back() {
    for (text, kind, item, names) in [
        ("identity", ScalarKind::F32, 4, vec!["bytes"]),
        ("zstd:3", ScalarKind::F32, 4, vec!["bytes", "zstd"]),
        ("shuffle,gzip:5", ScalarKind::F64, 8, vec!["bytes", "numcodecs.shuffle", "gzip"]),
        ("blosc:lz4:5:shuffle", ScalarKind::F64, 8, vec!["bytes", "blosc"]),
        ("delta,zlib:1", ScalarKind::I32, 4, vec!["numcodecs.delta", "bytes", "numcodecs.zlib"]),
        ("bitround:7,pcodec:8", ScalarKind::F32, 4, vec!["numcodecs.bitround", "numcodecs.pcodec"]),
        ("lz4:acceleration=3", ScalarKind::F32, 4, vec!["bytes", "numcodecs.lz4"]),
        (
            "pcodec:8,lz4,bzip2:9",
            ScalarKind::F32,
            4,
            vec!["numcodecs.pcodec", "numcodecs.lz4", "numcodecs.bz2"],
        ),
    ] {
        let items = Chain::parse(text).unwrap().to_zarr(kind, item).unwrap();
        let found: Vec<_> = items
            .iter()
            .map(|item| match item {
                ListItem::Object { name, .. } => name.as_str(),
                ListItem::Text(text) => panic!("{text}"),
            })
            .collect();
        assert_eq!(found, names, "{text}");
        let again = Chain::parse_list(&items).unwrap();
        assert_eq!(again.to_zarr(kind, item).unwrap(), items, "{text}");
    }
    for (text, kind, item, part) in [
        ("szip", ScalarKind::F32, 4, "no such codec"),
        ("bitshuffle,zstd", ScalarKind::F32, 4, "no such codec"),
        ("zstd,delta", ScalarKind::I32, 4, "would get bytes"),
        ("delta", ScalarKind::F32, 4, "differences of floats"),
        ("pcodec", ScalarKind::F32, 8, "single numbers"),
        ("pcodec:8,delta=1", ScalarKind::F32, 4, "another name"),
    ] {
        let message = Chain::parse(text).unwrap().to_zarr(kind, item).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[cfg(not(feature = "zfp"))]
#[test]
fn a_build_without_zfp_says_so_by_name() {
    let refused = Chain::parse("zfp:tolerance=0.1").unwrap_err().to_string();
    assert_eq!(
        refused,
        "codec zfp: is not part of this build; build with the cargo feature \"zfp\" of the crate drystone"
    );
}

#[test]
fn a_readable_text_is_the_same_transform_without_needless_quotes() {
    for (recorded, typed) in [
        ("auto:\"size\"", "auto:size"),
        ("auto:\"read\",bandwidth=50", "auto:read,bandwidth=50"),
        ("blosc:\"lz4\",5,\"shuffle\"", "blosc:lz4,5:shuffle"),
        ("aplod:2,1,1,4", "aplod:2,1,1,4"),
        ("szip:16,\"ec\",zstd:3", "szip:16:ec,zstd:3"),
        ("mloc:order=\"V:16,S:32,P:2.1.1.4\"", "mloc:order=\"V:16,S:32,P:2.1.1.4\""),
        ("isobar:3,solver=\"zlib\"", "isobar:3,solver=zlib"),
        ("bitround:8,dtype=\"f4\",zstd:1", "bitround:8,dtype=f4,zstd:1"),
        ("not a transform!", "not a transform!"),
        ("", ""),
    ] {
        assert_eq!(drystone_transform::readable(recorded), typed);
    }
    for text in ["blosc:lz4:5:shuffle,blocksize=16384", "blosc", "isobar:solver=zlib", "zfp:tolerance=1e-3"] {
        let canonical = Chain::parse(text).unwrap().canonical();
        let readable = drystone_transform::readable(&canonical);
        assert_eq!(Chain::parse(&readable).unwrap().canonical(), canonical, "{readable}");
    }
}
