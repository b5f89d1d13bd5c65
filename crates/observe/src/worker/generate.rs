//! Token generation: the prompt, then token after token, each timed.

use ortscope_channel::{ControlPage, InferenceRecord, Phase, RingWriter};
use ortscope_core::clock::now_ns;
use ortscope_core::tensor::Value;
use ortscope_ort::decoder::KvDecoder;
use ortscope_ort::{OrtError, Session};

use super::outbox::Outbox;
use super::{Stopped, failures};
use crate::measure::plan::{GeneratePlan, WorkerPlan};
use ortscope_analyze::facts::MemoryStage;
use ortscope_core::failure::Failure;

/// Generates sequences until it is stopped. Each starts with an empty cache and the same prompt.
pub fn run(
    plan: &WorkerPlan,
    generate: GeneratePlan,
    page: &ControlPage,
    outbox: &mut Outbox,
    session: &Session,
    inputs: &[(String, Value)],
) -> Result<(), Stopped> {
    let wrong = |error: &OrtError| Stopped { failure: failures::from_ort(error, plan), after_runs: None };
    let Some(layout) = KvDecoder::detect(session).map_err(|error| wrong(&error))? else {
        let failure = Failure::input(
            "--generate needs a decoder with a KV cache; this model has no past/present pairs",
        )
        .with_hint("leave --generate out to measure single runs");
        return Err(failure.into());
    };
    let vocabulary = plan.inputs.hints.get(&layout.tokens).vocabulary.unwrap_or(2).max(2);
    let prompt: Vec<i64> = (0..u64::from(generate.prompt_tokens.max(1)))
        .map(|position| ((plan.inputs.seed.wrapping_add(position * 7919)) % vocabulary) as i64)
        .collect();
    let mut decoder = KvDecoder::new(session, layout, inputs).map_err(|error| wrong(&error))?;
    let mut ring = outbox.take_stream(0)?;
    let mut made = Sequencer { ring: &mut ring, sequence: 0 };

    // Only the first step of the first sequence is measured: the rest grows the arena and fills the caches.
    made.step(&mut decoder, &prompt, Phase::First, None).map_err(|error| wrong(&error))?;
    outbox.memory(MemoryStage::AfterFirstRun);
    outbox.steady(true);
    let begin = now_ns();
    let deadline = plan.limits.duration_ns.map_or(u64::MAX, |duration| begin.saturating_add(duration));
    let mut sequences = 0;
    while !page.stop_requested()
        && now_ns() < deadline
        && plan.limits.runs.is_none_or(|most| sequences < most)
    {
        let result = made.sequence(&mut decoder, &prompt, generate.new_tokens, page);
        if let Err(error) = result {
            let mut failure = failures::from_ort(&error, plan);
            failure.message = format!("step {} failed: {}", made.sequence + 1, failure.message);
            return Err(Stopped { failure, after_runs: Some(made.sequence) });
        }
        sequences += 1;
    }
    outbox.steady(false);
    Ok(())
}

struct Sequencer<'r> {
    ring: &'r mut RingWriter,
    sequence: u64,
}

impl Sequencer<'_> {
    fn sequence(
        &mut self,
        decoder: &mut KvDecoder<'_>,
        prompt: &[i64],
        new_tokens: u32,
        page: &ControlPage,
    ) -> Result<(), OrtError> {
        decoder.reset()?;
        let mut token = self.step(decoder, prompt, Phase::Prefill, Some(0))?;
        for position in 1..new_tokens {
            if page.stop_requested() {
                break;
            }
            token = self.step(decoder, &[token], Phase::Token, Some(position))?;
        }
        Ok(())
    }

    /// Preparing the inputs counts as copy in, choosing the next token as copy out.
    fn step(
        &mut self,
        decoder: &mut KvDecoder<'_>,
        tokens: &[i64],
        phase: Phase,
        position: Option<u32>,
    ) -> Result<i64, OrtError> {
        let start = now_ns();
        decoder.prepare_step(tokens)?;
        let prepared = now_ns();
        decoder.run_step()?;
        let ran = now_ns();
        let next = decoder.finish_step()?;
        let end = now_ns();
        self.ring.write_inference(&InferenceRecord {
            start_ns: start,
            planned_ns: start,
            copy_in_ns: prepared - start,
            run_ns: ran - prepared,
            copy_out_ns: end - ran,
            sequence: self.sequence,
            batch_size: 1,
            queue_depth: None,
            token: position,
            stream: 0,
            session: 0,
            phase,
            ok: true,
        });
        self.sequence += 1;
        Ok(next)
    }
}
