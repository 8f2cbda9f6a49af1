package auto

import "github.com/gotrainer/gotrainer/models/sft"

// SFTTask is the task of learning to continue texts: SFTTrainer of TRL.
func (m *CausalLanguageModel) SFTTask(o sft.TaskOptions) (*sft.Task, error) { return sft.NewTask(m, o) }
