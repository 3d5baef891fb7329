package fsm_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestEntryWithoutZeroFields applies an entry in the encoding of earlier versions, which omits
// zero fields. A missing field is decoded as zero.
func TestEntryWithoutZeroFields(t *testing.T) {
	body := "\x82" +
		"\xa3Job\x86" + "\xa6Region\xa6global" + "\xa9Namespace\xa7default" + "\xa2ID\xa3web" + "\xa4Type\xa5batch" + "\xa8Priority\x32" +
		"\xaaTaskGroups\x91\x82" + "\xa4Name\xa5group" + "\xa5Count\x01" +
		"\xa4Eval\x86" + "\xa2ID\xa5eval1" + "\xa9Namespace\xa7default" + "\xa8Priority\x32" + "\xa4Type\xa5batch" + "\xa5JobID\xa3web" +
		"\xa6Status\xa7pending"
	m := newMachine()
	if err, failed := m.raw(append([]byte{byte(message.JobRegisterRequestType)}, body...)).(error); failed {
		t.Fatal(err)
	}
	j := m.State().Snapshot().Job(nil, "default", "web")
	if j == nil || j.Priority != 50 || j.Type != nomad.JobTypeBatch || len(j.TaskGroups) != 1 || j.TaskGroups[0].Count != 1 || j.Stop ||
		j.Periodic != nil || j.Meta != nil {
		t.Errorf("the job is %+v", j)
	}
	if e := m.State().Snapshot().Eval(nil, "eval1"); e == nil || e.JobID != "web" || e.Status != nomad.EvalStatusPending ||
		e.DeploymentID != "" || e.QueuedAllocations != nil {
		t.Errorf("the evaluation is %+v", e)
	}
}
