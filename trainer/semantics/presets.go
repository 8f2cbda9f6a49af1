package semantics

// Default is the loop of Hugging Face's Trainer with its known defects fixed.
var Default = Rules{Name: "default"}

// HuggingFace is transformers.Trainer 5.17, exactly.
var HuggingFace = Rules{
	Name:                    "huggingface 5.17",
	Loop:                    HuggingFaceLoop,
	Divisor:                 WindowLength,
	UndividedWithItems:      true,
	EndWithoutBatch:         true,
	StreamKeepsLast:         true,
	StreamEpochByPlan:       true,
	SeedOnce:                true,
	FusedHidesSkips:         true,
	FilterNonFiniteLoss:     true,
	NonFiniteLossStays:      true,
	TrackBestOnRequest:      true,
	OnlyLossIsLower:         true,
	BestMayBeUnsaved:        true,
	OnlyBestAtEnd:           true,
	KeepOldRun:              true,
	DropLastInEvaluation:    true,
	EvalLoss:                RepeatedFloat32,
	EvenEvalBatches:         true,
	EvalOnStartAfterResume:  true,
	ForgetLossAtResume:      true,
	TrainLossOverAllSteps:   true,
	ForgetHooksAtResume:     true,
	EarlyStoppingWaits:      true,
	PositionFromGlobalStep:  true,
	RetryFromTrained:        true,
	IntervalsFromCheckpoint: true,
	ResumeFromWeights:       true,
	OptimizerFromCheckpoint: true,
}

// Hezar is the Trainer of hezar 1.0.0. A step is a micro-batch.
var Hezar = Rules{
	Name:                 "hezar 1.0",
	Loop:                 HezarLoop,
	UnfinishedWindowLost: true,
	Divisor:              Accumulate,
	ScheduleOnSkip:       true,
	LossReport:           RunningMean,
	CountStepsAtResume:   true,
	SeedOnce:             true,
	SeedEveryPass:        true,
	OnlyLossIsLower:      true,
	RepeatAtEpochEnd:     true,
	SaveInsideWindow:     true,
	EvalLoss:             MeanOfBatches,
	ForgetLossAtResume:   true,
	ForgetHooksAtResume:  true,
	RestartPassAtResume:  true,
}

// PytorchAccelerated is the Trainer of pytorch-accelerated 0.1.61.
var PytorchAccelerated = Rules{
	Name:                "pytorch-accelerated 0.1",
	Loop:                PytorchAcceleratedLoop,
	PlanIgnoresLimit:    true,
	LimitByEpoch:        true,
	EpochsPerSession:    true,
	Divisor:             Accumulate,
	ClipEveryBatch:      true,
	LossReport:          EpochMean,
	EvalLoss:            RowsInFloat32,
	StayInEvalMode:      true,
	ForgetHooksAtResume: true,
}

// PyMarlin is the Trainer of PyMarlin 0.3.6.
var PyMarlin = Rules{
	Name:                "pymarlin 0.3",
	Loop:                PyMarlinLoop,
	Divisor:             Accumulate,
	ScheduleOnSkip:      true,
	LossReport:          WindowMean,
	SeedOnce:            true,
	TwoIterators:        true,
	EvalLoss:            MeanOfBatches,
	ForgetLossAtResume:  true,
	ForgetHooksAtResume: true,
}
