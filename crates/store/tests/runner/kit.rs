//! What the tests of this crate share.

use std::ops::ControlFlow;
use std::path::Path;

use annals::home::opencode_dir::OpencodeDir;
use annals::home::{MessageRecord, Quarantined, Read, SessionRecord, Want};
use annals::model::format::opencode::ExportWriter;
use annals::model::id::SessionId;

/// Opens a home.
pub(crate) fn open(path: &Path) -> OpencodeDir {
    OpencodeDir::open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A session that must be there.
pub(crate) fn session(home: &dyn Read, id: &str) -> SessionRecord {
    home.session(&SessionId::parse(id).unwrap()).unwrap().unwrap_or_else(|| panic!("no session {id}"))
}

/// All messages of a session with their parts, and all that was unreadable.
pub(crate) fn messages(home: &dyn Read, session: &SessionRecord) -> (Vec<MessageRecord>, Vec<Quarantined>) {
    let mut messages = Vec::new();
    let mut quarantined = home
        .messages(session, Want::Parts, &mut |message| {
            messages.push(message);
            ControlFlow::Continue(())
        })
        .unwrap();
    for message in &mut messages {
        quarantined.append(&mut message.quarantined);
    }
    (messages, quarantined)
}

/// The export of a session.
pub(crate) fn export(home: &dyn Read, id: &str) -> Vec<u8> {
    let session = session(home, id);
    let mut writer = ExportWriter::new(&session.stored.document);
    for message in messages(home, &session).0 {
        writer.message(&message.stored.document, message.parts.iter().map(|part| &part.document));
    }
    writer.finish()
}
