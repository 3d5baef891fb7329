package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Every metric of an RPC in the list belongs to a method.
func TestMetrics_Methods(t *testing.T) {
	text, err := os.ReadFile("../../e2e/testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := servertest.Start(t, nil)
	has := map[string]bool{}
	for _, m := range s.Methods() {
		has["nomad.nomad."+meter.ServerName(m.Name)] = true
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[len(f)-1] != "rpc" {
			continue
		}
		if rows++; !has[f[0]] {
			t.Errorf("no method has the metric %s", f[0])
		}
	}
	if rows < 100 {
		t.Errorf("the list has %d metrics of RPCs", rows)
	}
}

// Only the leader sets job gauges, so that the sum over all servers counts each job once.
func TestMetrics_JobsOfTheLeader(t *testing.T) {
	leader, followers := servertest.Split(t, servertest.Cluster(t, 3, nil))
	servertest.Register(t, leader.Server, servertest.BatchJob("b", 1))
	shown := func(s *server.Server) map[string]float32 {
		out := map[string]float32{}
		s.JobGauges(func(key []string, val float32, _ []metrics.Label) { out[strings.Join(key, ".")] += val })
		return out
	}
	got := shown(leader.Server)
	if jobs := got["nomad.job_status.pending"] + got["nomad.job_status.running"] + got["nomad.job_status.dead"]; jobs != 1 {
		t.Errorf("the leader shows %v jobs, want 1", jobs)
	}
	if _, ok := got["nomad.job_summary.queued"]; !ok {
		t.Errorf("the leader shows %v, want the summary of the job", got)
	}
	for _, f := range followers {
		if got := shown(f.Server); len(got) > 0 {
			t.Errorf("a follower shows %v", got)
		}
	}
}
