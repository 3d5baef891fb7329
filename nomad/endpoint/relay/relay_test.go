package relay_test

import (
	"errors"
	"io"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

func TestRelay_ToTheNode(t *testing.T) {
	for name, attach := range map[string]func(*testing.T, *server.Server, *servertest.FakeNode){
		"over its session": func(t *testing.T, s *server.Server, n *servertest.FakeNode) {
			p := rpc.NewPool(rpc.PoolConfig{Serve: servertest.ClientServer(t)})
			t.Cleanup(func() { p.Close() })
			n.Pool = p
			n.Heartbeat(n.JWT, false)
		},
		"in process": func(t *testing.T, s *server.Server, n *servertest.FakeNode) {
			s.AttachNode(n.Node.ID, servertest.ClientServer(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := servertest.Start(t, nil)
			n := servertest.Join(t, s.RPCAddr())
			servertest.Register(t, s, servertest.BatchJob("b", 1))
			id := n.Allocs(1)[0].ID
			n.Pool.Close()
			servertest.Eventually(t, func() bool {
				err := s.Call(servertest.Context(t), "ClientAllocations.Stats", &message.AllocStatsRequest{AllocID: id}, nil)
				return errors.Is(err, apierror.ErrNoNodeConn)
			})
			attach(t, s, n)
			if got := servertest.Read[message.AllocStatsResponse](t, s, "ClientAllocations.Stats",
				&message.AllocStatsRequest{AllocID: id}); got.Stats.Timestamp != 7 {
				t.Errorf("ClientAllocations.Stats = %+v", got.Stats)
			}
			servertest.WantError(t, s.Call(servertest.Context(t), "ClientAllocations.Stats", &message.AllocStatsRequest{AllocID: id, Task: "x"},
				nil), 404, "unknown task")
			servertest.WantError(t, s.Call(servertest.Context(t), "ClientAllocations.Stats", &message.AllocStatsRequest{AllocID: nomad.NewID()},
				nil), 404, "Unknown allocation")
			st, err := s.Stream(servertest.Context(t), "FileSystem.Logs")
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			st.Encode(&message.FsLogsRequest{AllocID: id, Task: "t"})
			var first message.StreamErrWrapper
			if err := st.Decode(&first); err != nil || string(first.Payload) != "log of t" {
				t.Errorf("FileSystem.Logs sends %q, %v", first.Payload, err)
			}
			if err := st.Decode(&first); err != io.EOF {
				t.Errorf("after the log: %v, want EOF", err)
			}
		})
	}
}

func TestRelay_ThroughAnotherServer(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	_, followers := servertest.Split(t, all)
	n := servertest.Join(t, followers[0].RPCAddr())
	n.Pool.Close()
	p := rpc.NewPool(rpc.PoolConfig{Serve: servertest.ClientServer(t)})
	t.Cleanup(func() { p.Close() })
	n.Pool = p
	n.Heartbeat(n.JWT, false)
	servertest.Register(t, all[0].Server, servertest.BatchJob("b", 1))
	id := n.Allocs(1)[0].ID
	for _, m := range all {
		servertest.Eventually(t, func() bool {
			var got message.AllocStatsResponse
			err := m.Call(servertest.Context(t), "ClientAllocations.Stats", &message.AllocStatsRequest{AllocID: id}, &got)
			return err == nil && got.Stats.Timestamp == 7
		})
		servertest.Eventually(t, func() bool { // a server may take two seconds to answer
			st, err := m.Stream(servertest.Context(t), "FileSystem.Logs")
			if err != nil {
				return false
			}
			defer st.Close()
			var frame message.StreamErrWrapper
			err = errors.Join(st.Encode(&message.FsLogsRequest{AllocID: id, Task: "t"}), st.Decode(&frame))
			return err == nil && string(frame.Payload) == "log of t"
		})
	}
}
