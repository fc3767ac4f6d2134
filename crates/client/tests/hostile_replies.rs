//! Replies that are mutated from valid ones are read or give errors.

#[test]
fn hostile_replies_do_no_harm() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sound: [&[u8]; 4] = [
        b"@HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"\x01HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
          3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: r\r\n\r\n",
        b"\x02HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 Partial\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        b"\x10HTTP/1.1 204 No Content\r\n\r\n",
    ];
    for round in 0..20_000 {
        let mut bytes = sound[round % sound.len()].to_vec();
        for _ in 0..random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(bytes.len().saturating_sub(random() as usize % 3));
        drystone_client::fuzzing::reply(&bytes);
    }
}
