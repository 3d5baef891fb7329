package jobs

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Admitted is a job as servers would store it.
type Admitted struct {
	*admission.Admitted
	Old *nomad.Job // the registered job with the same ID, or nil
	// Unchanged means that the registered job has the same specification, so that no new version would be stored.
	Unchanged bool
}

// Admit returns a job as servers with the state of core would store it, or the error of its registration. The caller
// has every right, as without access control. It writes nothing. It uses the store, the clock and the kinds of core
// only.
func Admit(core *handler.Core, job *nomad.Job) (*Admitted, error) {
	s := New(core, nil, nil, Config{Admission: admission.New(admission.Config{Region: core.Region, Kinds: core.Kinds, Schemas: core.Schemas,
		OnlyOurs: core.OnlyOurs, Consul: core.Consul})})
	all := &rpc.Call{Access: &rpc.Access{Rights: acl.Everything, Disabled: true}}
	snap := s.Snapshot()
	view := s.admission.At(snap)
	stored, err := s.complete(all, view, submission{job: codec.Copy(job), rights: rights{acl.SubmitJob}})
	if err != nil {
		return nil, err
	}
	identifyPolicies(snap, stored)
	stored.SubmitTime = s.UnixNow()
	admitted, err := view.Admit(admission.Caller(all.Access), stored)
	if err != nil {
		return nil, err
	}
	old := snap.Job(nil, stored.Namespace, stored.ID)
	return &Admitted{Admitted: admitted, Old: old, Unchanged: old != nil && !old.Stopped() && sameSpec(old, stored)}, nil
}
