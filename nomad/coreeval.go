package nomad

import (
	"strconv"
	"strings"
	"time"
)

// CoreNamespace is the namespace of core evaluations, which no object has.
const CoreNamespace = "-"

// MaxUUIDsPerWriteRequest bounds the IDs in one Raft entry, so that none grows
// past 256 KiB by IDs alone.
const MaxUUIDsPerWriteRequest = 7281

// NewCoreEval returns an evaluation for a core job, made at the Raft index. It
// lives in the broker only, never in state.
func NewCoreEval(coreJob string, index uint64, now time.Time) *Evaluation {
	return &Evaluation{
		ID:          NewID(),
		Namespace:   CoreNamespace,
		Priority:    CoreJobPriority,
		Type:        JobTypeCore,
		TriggeredBy: EvalTriggerScheduled,
		JobID:       coreJob + ":" + strconv.FormatUint(index, 10),
		Status:      EvalStatusPending,
		ModifyIndex: index,
		CreateTime:  now.UnixNano(),
		ModifyTime:  now.UnixNano(),
	}
}

// CoreJob returns the name of the core job that a core evaluation is for.
func (e *Evaluation) CoreJob() string {
	name, _, _ := strings.Cut(e.JobID, ":")
	return name
}
