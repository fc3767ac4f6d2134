//! Listeners receive spans of commits, publications and recoveries, not only of reads and puts.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::{Arc, Mutex};

use crate::common::*;
use drystone::{Adopt, Container, CreateOptions, PublishOptions, SpanKind, WriterOptions, listen_to_spans};

#[test]
fn operations_that_make_steps_visible_are_reported_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spans.dry");
    let store = Arc::new(drystone_store::LocalStore::create(&path).unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    let listening = listen_to_spans(move |span| {
        if span.container.contains("spans.dry") {
            into.lock().unwrap().push((span.kind, span.variable.to_owned(), span.values));
        }
    });
    let c = Container::create(store, CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[64], |v| v.steps = true)]).unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    w.begin_step(None, false).unwrap();
    w.put("t", &f4(), &dense(&ramp_f32(64), &[64], 4), None, None).unwrap();
    w.end_step().unwrap();
    w.close().unwrap();
    c.commit().unwrap();
    c.publish(&PublishOptions::default(), &mut |_, _| true).unwrap();
    c.recover(&Adopt::All, &[]).unwrap();
    drop(listening);
    let heard = heard.lock().unwrap();
    let order: Vec<SpanKind> =
        heard.iter().map(|(kind, ..)| *kind).filter(|kind| *kind != SpanKind::Read).collect();
    // The schema, the block and its step. A commit of nothing has no span. A publication records its result, and a
    // recovery the fence of the next run.
    assert_eq!(order[..3], [SpanKind::Commit, SpanKind::Put, SpanKind::Commit], "{order:?}");
    let place = |wanted| order.iter().position(|kind| *kind == wanted).unwrap();
    assert!(place(SpanKind::Publish) > 2 && place(SpanKind::Publish) < place(SpanKind::Recover), "{order:?}");
    let of = |wanted| heard.iter().find(|(kind, ..)| *kind == wanted).unwrap();
    assert_eq!(of(SpanKind::Put).1, "t");
    let (_, variable, published) = of(SpanKind::Publish);
    assert!(variable.is_empty() && published.blocks >= 1 && published.bytes > 0, "{published:?}");
}
