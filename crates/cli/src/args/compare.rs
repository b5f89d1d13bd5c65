//! `ortscope compare`.

use clap::Args;

use super::JudgeArgs;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ortscope compare 7f3a last
  ortscope compare base1,base2,base3,base4,base5 new1,new2,new3,new4,new5
  ortscope compare base last --metric p50,memory --margin 3%

RUN is an id, the beginning of one, a name, 'last', or the path of a recording; several, with commas, are one side.
A recording is one process run: a verdict needs at least 5 a side. Fewer are shown with their intervals and stay
inconclusive; 'ortscope bench' compares two models at once and on its own.
Exit codes: 0, 10 regression, 11 inconclusive (with --fail-on inconclusive), 12 made on another machine.")]
pub struct CompareArgs {
    /// Recordings of side A, the baseline
    #[arg(value_name = "RUN_A[,RUN...]", value_delimiter = ',', num_args = 1, required = true)]
    pub a: Vec<String>,
    /// Recordings of side B
    #[arg(value_name = "RUN_B[,RUN...]", value_delimiter = ',', num_args = 1, required = true)]
    pub b: Vec<String>,
    /// Compare although the machine or its software was another; the result says so
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub judge: JudgeArgs,
}
