//! Any bytes as what a client sends on a WebSocket: frames are taken apart within the server's limits, texts are
//! understood or refused with one sentence.

#![no_main]

use std::io::{Cursor, Read, Write};

use libfuzzer_sys::fuzz_target;
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};

/// Reads what the client sent, forgets what it is answered.
struct Client<'a>(Cursor<&'a [u8]>);

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn check(text: &str) {
    assert!(text.len() <= ortscope_server::MAX_WS_FRAME_BYTES);
    if let Err(sentence) = ortscope_server::check_ws_frame(text) {
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        check(text);
    }
    let most = Some(ortscope_server::MAX_WS_FRAME_BYTES);
    // The library's buffer for reading is 128 KiB unless it is told otherwise, which is all that an input would cost.
    let limits =
        WebSocketConfig::default().max_message_size(most).max_frame_size(most).read_buffer_size(1 << 10);
    let mut socket = WebSocket::from_raw_socket(Client(Cursor::new(data)), Role::Server, Some(limits));
    for _ in 0..100 {
        match socket.read() {
            Ok(Message::Text(text)) => check(&text),
            Ok(_) => {}
            Err(_) => break,
        }
    }
});
