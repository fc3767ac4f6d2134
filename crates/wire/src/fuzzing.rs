//! Bodies of fuzz targets, for fuzz/ and the tests that run them.

use crate::{
    Answer, Ask, Builder, Frames, Greeting, Header, MessageHead, UploadStep, decode_listing, encode_listing,
};

/// Any bytes are a body or give an error; a decoded body encodes to the same bytes.
pub fn body(bytes: &[u8]) {
    let Ok(frames) = Frames::decode(bytes) else { return };
    let (status, text) = frames.status();
    let (text, mut again) = (text.to_owned(), Builder::new());
    for (header, payload) in frames.into_frames() {
        again.frame(&header, &[payload]);
        let _ = Answer::of_header(header.clone());
        if let Ok(ask) = Ask::of_header(header.clone()) {
            assert_eq!(ask.header(), header, "an ask has one encoding");
        }
    }
    assert_eq!(again.end(status, &text), bytes, "a body has one encoding");
}

/// Any bytes are a header or give an error.
pub fn header(bytes: &[u8]) {
    let Ok(header) = Header::decode(bytes) else { return };
    assert_eq!(header.encode(), bytes, "a header has one encoding");
    if let Ok(ask) = Ask::of_header(header.clone()) {
        assert_eq!(ask.header(), header, "an ask has one encoding");
    }
    if let Ok(answer) = Answer::of_header(header.clone()) {
        assert_eq!(answer.header(), header, "an answer has one encoding");
    }
}

/// Any bytes are a listing or give an error.
pub fn listing(bytes: &[u8]) {
    let Ok(entries) = decode_listing(bytes) else { return };
    let again = encode_listing(entries.iter().map(|entry| (entry.key.as_str(), entry.len)));
    assert_eq!(again, bytes, "a listing has one encoding");
}

/// Any three lines are headers of an upload or give an error. A number has one spelling.
pub fn upload(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.split('\n').map(|line| (!line.is_empty()).then_some(line));
    let (name, offset, length) = (lines.next().flatten(), lines.next().flatten(), lines.next().flatten());
    match UploadStep::parse(name.unwrap_or_default(), offset, length) {
        Ok(UploadStep::Piece { offset: number }) => assert_eq!(offset, Some(number.to_string().as_str())),
        Ok(UploadStep::End { length: number }) => assert_eq!(length, Some(number.to_string().as_str())),
        Ok(UploadStep::Abandon) => assert_eq!((offset, length), (None, None)),
        Err(_) => {}
    }
}

/// Any bytes are a greeting and the head of a message, or give errors.
pub fn arena(bytes: &[u8]) {
    if let Some(Ok(greeting)) = bytes.first_chunk().map(Greeting::decode) {
        assert_eq!(bytes.first_chunk(), Some(&greeting.encode()), "a greeting has one encoding");
    }
    if let Some(Ok(head)) = bytes.first_chunk().map(MessageHead::decode) {
        assert_eq!(bytes.first_chunk(), Some(&head.encode()), "a head has one encoding");
    }
}
