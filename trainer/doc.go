// Package trainer runs training loops. It knows order, counting, schedules, logs and files; it
// knows nothing of tensors. A [Step] does the arithmetic: package trainer/engine makes one of a
// model and libtorch.
//
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/a", Epochs: 3, BatchSize: 64, LearningRate: 3e-4})
//	result, err := t.Fit(ctx, train, valid)
//	fmt.Println(result.Best.Value, result.Best.Checkpoint)
//
// The loop is that of Hugging Face's Trainer: the same order of events, the same counting of steps
// and epochs, the same names in the log, with its known defects mended. With semantics.HuggingFace
// in [Options] it is that loop to the letter. docs/semantics.md lists the differences.
//
// # Words
//
// A micro-batch goes through forward and backward at once. A window is the micro-batches behind one
// update: Options.Accumulate of them, fewer at the end of an epoch. An update is one step of the
// optimizer; GlobalStep counts updates, and a "step" in the log is an update.
//
// # Stopping and going on
//
// To stop a run, cancel the context: the update at hand is finished, a checkpoint is written, and
// Fit returns an error for which errors.Is(err, context.Canceled) holds and which says where the
// checkpoint is. A hook stops a run with [Run.Stop].
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/a", ResumeFrom: trainer.Latest})
//
// With [Latest] the same program starts a run and goes on with it, as often as it is killed. A
// resumed run does what the uninterrupted one would have done, bit for bit, from any point.
//
// With Options.AutoFindBatchSize a run that runs out of memory begins anew with smaller batches.
//
// # Evaluation
//
// The validation set is evaluated as Options.Eval says, by default after every epoch, and the best
// evaluation is remembered: its value and, where it was saved, its checkpoint stand in
// [Result.Best]. Several sets are given as [EvalSets]; each is logged under its name.
//
//	valid := trainer.EvalSets[Sample]{{"matched", a}, {"mismatched", b}}
//	t, err := trainer.New(step, trainer.Options{
//		MetricForBest: "mismatched_accuracy", LoadBestAtEnd: true, OutputDir: "runs/a",
//	})
//
// [Trainer.Evaluate] and [Trainer.Predict] do so once, before a run or after it. A schedule in
// Options.Adaptive follows the evaluations.
//
// # Several processes
//
// With Options.Group, made by dist.Init, the processes of a run share training and evaluations out
// among them. All make the same calls; the main process writes. docs/distributed.md says what is
// averaged and gathered where.
//
// # Data without a length
//
// An [EvalStream] takes the place of a validation set. [Trainer.FitStream] trains on a data.Stream,
// which is read by one goroutine and collated by several. Options.MaxSteps says when to end.
//
// # What a run leaves in its folder
//
// checkpoint-N holds the files of the step, trainer_state.json with the keys of transformers, and
// gotrainer_state.json with the rest of the position. With Options.Pusher they are uploaded while
// the run goes on. metrics.jsonl is the log, one row a line; metrics.csv the same as a table. Two
// runs cannot share a folder: the second is refused and told who has it. A new run does not start
// in the folder of an old one unless Options.Overwrite says so.
//
// # Looking in and taking part
//
// A callback is any value with one of the methods in hooks.go. It reads the [Run] it is given and
// decides by its Control or by Stop:
//
//	type stopAtTen struct{}
//
//	func (stopAtTen) StepEnd(r *trainer.Run) error {
//		if r.GlobalStep >= 10 {
//			r.Stop("ten updates are enough")
//		}
//		return nil
//	}
//
// The events and their order stand in hooks.go and are printed by the example Events.
// docs/overrides.md lists every method of Hugging Face's Trainer that one would override and its
// form in Go, docs/training-arguments.md every argument.
//
// # Errors
//
// [New] and Fit name the option that is wrong ([OptionError]), the point of the run at which the
// step failed ([StepError]) and the hook that ended it ([HookError]). A panic of the step whose
// value is an error with a method TorchError(), as package torch's are, is returned as an error;
// every other panic goes through.
//
// # Writing a Step
//
// A Step from scratch embeds [BaseStep] and has six methods of its own: Collate, Train, Update,
// Report, Eval and Metrics. What it can do besides it implements and says in its [About]; [New]
// refuses an option that it cannot serve. To change a step that exists, embed it and override a
// method; to wrap any step, embed the interface [Step].
//
// # Tests without tensors
//
// Package trainer/trainertest has a Step that computes nothing and records its calls. The loop
// itself (texts.go, loop.go) knows no Step, so every order of events is tested in microseconds.
package trainer
