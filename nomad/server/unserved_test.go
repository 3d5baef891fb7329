package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// foreignArchive returns a snapshot of a cluster of Nomad 2.0 with two jobs for several
// regions. The records have the keys of Nomad's structs.
func foreignArchive(t *testing.T) []byte {
	t.Helper()
	var stream bytes.Buffer
	out := fsm.NewRecordWriter(&stream)
	put := func(kind byte, row any) {
		t.Helper()
		if err := out.Write(kind, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Header(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"backup", "report"} {
		job := map[string]any{"Region": "global", "Namespace": "default", "ID": id, "Name": id, "Type": "batch", "Priority": 50,
			"Datacenters": []string{"*"},
			"NodePool":    "default", "Status": "running", "CreateIndex": 20, "ModifyIndex": 20, "JobModifyIndex": 20, "Version": 0,
			"Multiregion": map[string]any{"Regions": []map[string]any{{"Name": "global", "Count": 1}}},
			"TaskGroups":  []map[string]any{{"Name": "g", "Count": 1, "Tasks": []map[string]any{{"Name": "t", "Driver": "exec"}}}}}
		put(1, job)
		put(9, job)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	meta := &raft.SnapshotMeta{Version: 1, ID: "1-100-1", Index: 100, Term: 1, Size: int64(stream.Len())}
	if _, err := snapshot.Write(&raw, meta, &stream); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// countReports counts the log lines about unsupported features.
func countReports(l *servertest.Log) int {
	return strings.Count(l.String(), "this version does not support stored features")
}

// Unsupported features in a restored snapshot appear in the log of every server and in the
// health: after the restore, when a server of another build joins, and after a restart.
func TestUnserved_Reported(t *testing.T) {
	dir := t.TempDir()
	logged := func(name string, change func(*server.Config)) (servertest.Member, *servertest.Log) {
		log := &servertest.Log{}
		s, stop := servertest.StartLogging(t, func(c *server.Config) {
			c.Name, c.SerfAddr, c.GossipProbe = name, testnet.Any, 100*time.Millisecond
			change(c)
		}, slog.New(slog.NewTextHandler(log, nil)))
		return servertest.Member{Server: s, Stop: stop}, log
	}
	founder := func(c *server.Config) { c.BootstrapExpect, c.DataDir = 1, dir; servertest.FastAutopilot(c) }
	here, log := logged("here", founder)
	servertest.Eventually(t, func() bool { return health(t, here).Healthy })
	if got := health(t, here).Unserved; len(got) > 0 || countReports(log) > 0 {
		t.Errorf("a new server reports %q and logs %d lines", got, countReports(log))
	}

	if err := servertest.Restore(t, servertest.RestoreStream(t, here.Server), foreignArchive(t), "EOF"); err != nil {
		t.Fatal(err)
	}
	want := []string{"multiregion blocks of 2 jobs have no effect: each region runs its part independently"}
	line := "features=\"" + strings.Join(want, "; ") + "\""
	servertest.Eventually(t, func() bool { return log.Has("level=WARN", line) })
	servertest.Eventually(t, func() bool { return health(t, here).Healthy }) // of the new term
	if got := health(t, here); !slices.Equal(got.Unserved, want) {
		t.Errorf("health.Unserved = %q, want %q", got.Unserved, want)
	}

	follower, joined := logged("follower", func(c *server.Config) { c.NonVoting, c.RetryJoin = true, []string{here.GossipAddr()} })
	defer follower.Stop()
	servertest.Eventually(t, func() bool { return joined.Has("level=WARN", line) })

	other, err := gossip.Open(gossip.Config{Name: "upstream.global", Bind: "127.0.0.1:0",
		Tags: map[string]string{"role": "nomad", "region": "global",
			"dc": "dc1", "build": "2.0.0", "vsn": "1", "raft_vsn": "3", "nonvoter": "1", "id": nomad.NewID(), "rpc_addr": "127.0.0.1", "port": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Join([]string{here.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*servertest.Log{log, joined} {
		servertest.Eventually(t, func() bool { return l.Has("level=WARN", line, "servers_of_other_builds=upstream.global") })
	}
	if got := countReports(log); got != 2 {
		t.Errorf("%d lines are logged, want 2", got)
	}

	servertest.Read[message.JobDeregisterResponse](t, here.Server, "Job.Deregister", &message.JobDeregisterRequest{JobID: "report",
		WriteRequest: message.WriteRequest{Region: "global", Namespace: "default"}})
	if got := health(t, here).Unserved; len(got) != 1 ||
		got[0] != "multiregion blocks of 1 job have no effect: each region runs its part independently" {
		t.Errorf("health.Unserved = %q after one of two jobs was stopped", got)
	}

	here.Stop()
	_, again := logged("here", founder)
	servertest.Eventually(t, func() bool { return again.Has("level=WARN", "multiregion blocks") })
}

// A server without peers logs the unsupported features of its complete log before it joins
// another server: by start_join, by retry_join, and as a member of an earlier start.
func TestUnserved_LoggedBeforeJoining(t *testing.T) {
	for name, join := range map[string]func(c *server.Config, addr string){
		"start_join":           func(c *server.Config, addr string) { c.StartJoin = []string{addr} },
		"retry_join":           func(c *server.Config, addr string) { c.RetryJoin = []string{addr} },
		"a member of long ago": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, dir := &servertest.Log{}, t.TempDir()
			founder := func(c *server.Config) {
				c.Name, c.SerfAddr, c.GossipProbe, c.BootstrapExpect, c.DataDir, c.Region = "here", testnet.Any, 100*time.Millisecond, 1, dir, "global"
			}
			logs := slog.New(slog.NewTextHandler(log, nil))
			here, stop := servertest.StartLogging(t, founder, slog.New(slog.DiscardHandler))
			// The command is only in the log: no snapshot has it.
			job := &nomad.Job{ID: "backup", Namespace: "default", Type: "batch", Status: "running", Multiregion: &nomad.Multiregion{}}
			if err := servertest.Retry(t, func(ctx context.Context) error {
				return here.Apply(ctx, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: job})
			}); err != nil {
				t.Fatal(err)
			}
			met := make(chan bool, 16)
			other, err := gossip.Open(gossip.Config{Name: "upstream.far", Bind: "127.0.0.1:0",
				Tags: map[string]string{"role": "nomad", "region": "far",
					"dc": "dc1", "build": "2.0.0", "vsn": "1", "raft_vsn": "3", "id": nomad.NewID(), "rpc_addr": "127.0.0.1", "port": "1"},
				Admit: func(*message.ServerMember) error {
					select {
					case met <- log.Has("this version does not support stored features", "multiregion blocks of 1 job"):
					default:
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			addr := net.JoinHostPort(other.Self().Addr.String(), fmt.Sprint(other.Self().Port))
			again := founder
			if join == nil {
				if _, err := here.Join([]string{addr}); err != nil {
					t.Fatal(err)
				}
			} else {
				again = func(c *server.Config) { founder(c); join(c, addr) }
			}
			stop()
			for len(met) > 0 {
				<-met
			}
			servertest.StartLogging(t, again, logs)
			select {
			case logged := <-met:
				if !logged {
					t.Error("it joined before it logged the unsupported features")
				}
			case <-servertest.Context(t).Done():
				t.Error("it did not join")
			}
		})
	}
}
