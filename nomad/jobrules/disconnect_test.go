package jobrules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestDisconnectBlock(t *testing.T) {
	hour, less := time.Hour, -time.Hour
	for _, c := range []struct {
		jobType string
		block   nomad.DisconnectStrategy
		want    string
	}{
		{"service", nomad.DisconnectStrategy{}, ""},
		{"system", nomad.DisconnectStrategy{LostAfter: hour, Reconcile: nomad.ReconcileLongestRunning}, ""},
		{"batch", nomad.DisconnectStrategy{StopOnClientAfter: &hour}, ""},
		{"service", nomad.DisconnectStrategy{LostAfter: less}, "lost_after of disconnect is negative"},
		{"service", nomad.DisconnectStrategy{StopOnClientAfter: &less}, "stop_on_client_after of disconnect is negative"},
		{"system", nomad.DisconnectStrategy{StopOnClientAfter: &hour}, "for service and batch jobs only"},
		{"service", nomad.DisconnectStrategy{LostAfter: hour, StopOnClientAfter: &hour}, "exclude each other"},
		{"service", nomad.DisconnectStrategy{Reconcile: "newest"}, `reconcile of disconnect is "newest"`},
	} {
		j := sample(c.jobType)
		j.TaskGroups[0].Disconnect = &c.block
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s job with %+v: Validate() = %v, want %q", c.jobType, c.block, err, c.want)
		}
	}
}

func TestOldDisconnectKeysWarn(t *testing.T) {
	j, hour := sample("service"), time.Hour
	jobrules.Canonicalize(j)
	tg := j.TaskGroups[0]
	tg.MaxClientDisconnect, tg.StopAfterClientDisconnect, tg.PreventRescheduleOnLost = &hour, &hour, true
	if w := jobrules.Warnings(j); len(w) != 3 || !strings.Contains(w[0], "max_client_disconnect has no effect") {
		t.Errorf("Warnings() = %q", w)
	}
	if err := jobrules.Validate(j); err != nil {
		t.Errorf("Validate() = %v", err)
	}
}
