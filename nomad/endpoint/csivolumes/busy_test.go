package csivolumes

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// locked are plugins whose volumes have an operation that does not end.
type locked struct{ Plugins }

// Lock implements Plugins.
func (locked) Lock(context.Context, string, string) (func(), error) {
	return nil, errors.New("another call is in progress")
}

// The error of a claim that waits too long for another operation is one that nodes repeat. Others are not.
func TestClaim_Busy(t *testing.T) {
	log := testlog.New(nil)
	n := log.Node(t)
	a := log.Alloc(t, log.Job(t, nomad.JobTypeBatch, 1, func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: nomad.VolumeTypeCSI, Source: "db"}}
	}), n)
	s := New(handler.New(handler.Config{Store: log.Store}), Config{Plugins: locked{}})
	call := &rpc.Call{Identity: &rbac.AuthenticatedIdentity{ClientID: n.ID}}
	_, err := s.Claim(t.Context(), call, &message.CSIVolumeClaimRequest{VolumeID: "db", AllocationID: a.ID, Claim: csi.ClaimWrite})
	if !errors.Is(err, csi.ErrRetryable) || !strings.Contains(err.Error(), "another call is in progress") {
		t.Errorf("Claim() = %v, want %q", err, csi.ErrRetryable)
	}
	if _, err := s.remove(t.Context(), "default", "db", nil); err == nil || errors.Is(err, csi.ErrRetryable) {
		t.Errorf("remove() = %v, want an error that is not repeated", err)
	}
}
