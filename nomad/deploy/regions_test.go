package deploy_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/deploy"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Deployments that servers of another build stored as blocked or pending can be completed, started
// and cancelled.
func TestMultiregion(t *testing.T) {
	for _, c := range []struct {
		from string
		do   func(w *deploy.Watcher, t *testing.T, id string) (*message.DeploymentUpdateResponse, error)
		to   string // "" if it is refused
		eval bool
	}{
		{nomad.DeploymentStatusBlocked, unblock, nomad.DeploymentStatusSuccessful, false},
		{nomad.DeploymentStatusBlocked, cancelled, nomad.DeploymentStatusCancelled, true},
		{nomad.DeploymentStatusPending, started, nomad.DeploymentStatusRunning, true},
		{nomad.DeploymentStatusPending, unblock, "", false},
		{nomad.DeploymentStatusRunning, unblock, "", false},
		{nomad.DeploymentStatusRunning, started, "", false},
		{nomad.DeploymentStatusRunning, cancelled, nomad.DeploymentStatusCancelled, true},
	} {
		rollout(t, time.Hour, func(w *world, _ *nomad.Allocation) {
			w.Must(w.t, message.DeploymentStatusUpdateRequestType, &message.DeploymentStatusUpdateRequest{
				DeploymentUpdate: &nomad.DeploymentStatusUpdate{DeploymentID: w.id, Status: c.from, UpdatedAt: time.Now().UnixNano()}})
			resp, err := c.do(w.w, w.t, w.id)
			status := w.Snapshot().Deployment(nil, w.id).Status
			switch {
			case c.to == "" && (err == nil || status != c.from):
				t.Errorf("from %s: %+v, %v, now %s", c.from, resp, err, status)
			case c.to != "" && (err != nil || status != c.to || (resp.EvalID != "") != c.eval):
				t.Errorf("from %s to %s: %+v, %v, now %s", c.from, c.to, resp, err, status)
			}
		})
	}
}

func unblock(w *deploy.Watcher, t *testing.T, id string) (*message.DeploymentUpdateResponse, error) {
	return w.Unblock(t.Context(), id)
}

func cancelled(w *deploy.Watcher, t *testing.T, id string) (*message.DeploymentUpdateResponse, error) {
	return w.Cancel(t.Context(), id)
}

func started(w *deploy.Watcher, t *testing.T, id string) (*message.DeploymentUpdateResponse, error) {
	return w.Start(t.Context(), id)
}
