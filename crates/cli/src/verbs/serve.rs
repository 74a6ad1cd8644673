//! `schedcast serve`: the report with controls.

use schedcast_host::sys;
use schedcast_lab::error::Result;
use schedcast_lab::question::Subject;
use schedcast_lab::simulator::Simulator;
use schedcast_present::serve::Server;

use super::{question_about, recording, say_newer_kernels, say_oddities};
use crate::arguments::Effort;
use crate::arguments::serve::ServeArguments;
use crate::{Call, output, written};

/// `schedcast serve`
pub(crate) fn serve<S>(arguments: &ServeArguments, call: &mut Call<S>) -> Result<()> {
    let path = &arguments.subject;
    let simulator = Simulator::new().drawing();
    let subject = match path.is_dir() {
        true => recording(path, &simulator)?,
        false => Subject::file(path),
    };
    let seeds = arguments.seeds;
    let effort = Effort {
        seeds: Some(seeds),
        length: arguments.length.clone(),
    };
    let question = question_about(subject, &arguments.columns, &arguments.target, &effort)?;
    say_oddities(&question, &mut call.err)?;
    let (reproduce, out) = (output::reproduce(call.words), &mut call.out);
    say_newer_kernels(&question.experiment()?.scenarios);
    let server = Server::new(question, simulator, arguments.port, seeds, reproduce)?;
    let line = format!("http://{}/ (Ctrl-C ends it)\n", server.address());
    written(out.write_all(line.as_bytes()).and_then(|()| out.flush()))?;
    server.serve(sys::stop_flag())
}
