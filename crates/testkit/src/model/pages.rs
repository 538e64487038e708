//! Fixed pages for tools that fetch something, below `/pages/`.

/// The content type and the bytes of a page.
pub(super) fn page(name: &str) -> Option<(&'static str, Vec<u8>)> {
    let table = name.strip_prefix("table-").and_then(|rest| rest.strip_suffix(".txt"));
    if let Some(number) = table.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        return Some(("text/plain; charset=utf-8", long_table(number).into_bytes()));
    }
    let (content_type, bytes): (&str, &[u8]) = match name {
        "guide.html" => ("text/html; charset=utf-8", GUIDE.as_bytes()),
        "notes.txt" => ("text/plain; charset=utf-8", "Notes\n- naïve café ✓\n- second line\n".as_bytes()),
        "data.json" => ("application/json", br#"{"status":"ok","items":[1,2,3]}"#),
        "pixel.png" => ("image/png", PIXEL),
        _ => return None,
    };
    Some((content_type, bytes.to_vec()))
}

/// About 48 kB, more than tools pass on to a model in one piece.
fn long_table(number: &str) -> String {
    let filler = "abcdefghij".repeat(4);
    (0..780).map(|row| format!("table {number} row {row:05} {filler}\n")).collect()
}

/// A page with a style and a script, which a converter to text must leave out.
const GUIDE: &str = "<!doctype html><html><head><title>Guide</title><style>p{color:red}</style></head>\
    <body><h1>Orders</h1><p>Send a <b>POST</b> to <code>/orders</code>.</p>\
    <ul><li>id: string</li><li>amount: integer</li></ul>\
    <script>console.log('not content')</script></body></html>";

/// A picture of 4 by 4 pixels in one colour.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\
    \x00\x00\x00\x0dIHDR\x00\x00\x00\x04\x00\x00\x00\x04\x08\x02\x00\x00\x00\x26\x93\x09\x29\
    \x00\x00\x00\x10IDAT\x78\xda\x63\xd0\x88\x3a\x01\x47\x0c\xc4\x71\x00\x0e\x92\x14\xa1\x9f\x82\xf7\x7c\
    \x00\x00\x00\x00IEND\xae\x42\x60\x82";
