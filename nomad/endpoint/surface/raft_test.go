package surface_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// usurper uses Raft over connections that it opens. It accepts none.
type usurper struct {
	dial  func(ctx context.Context, addr string) (net.Conn, error)
	ended chan struct{}
}

func (u usurper) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return u.dial(ctx, string(to))
}

// rawRaft opens a Raft connection over TLS without a certificate.
func rawRaft(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_, err = raw.Write([]byte{0x04})
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	if _, failed := conn.Write([]byte{0x02}); errors.Join(err, failed) != nil {
		raw.Close()
		return nil, errors.Join(err, failed)
	}
	return conn, nil
}

func (u usurper) Accept() (net.Conn, error) {
	<-u.ended
	return nil, net.ErrClosed
}

func (u usurper) Close() error   { close(u.ended); return nil }
func (u usurper) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// raftCalls are Raft requests between servers, with a given term.
var raftCalls = map[string]func(t *raft.NetworkTransport, to raft.ServerAddress, h raft.RPCHeader,
	term uint64) (done uint64, err error){
	"AppendEntries": func(t *raft.NetworkTransport, to raft.ServerAddress, h raft.RPCHeader, term uint64) (uint64, error) {
		var out raft.AppendEntriesResponse
		err := t.AppendEntries("x", to, &raft.AppendEntriesRequest{RPCHeader: h, Term: term, LeaderCommitIndex: 1 << 40,
			Entries: []*raft.Log{{Index: 1, Term: term, Type: raft.LogCommand, Data: []byte{0}}}}, &out)
		return out.Term, err
	},
	"RequestVote": func(t *raft.NetworkTransport, to raft.ServerAddress, h raft.RPCHeader, term uint64) (uint64, error) {
		var out raft.RequestVoteResponse
		err := t.RequestVote("x", to, &raft.RequestVoteRequest{RPCHeader: h, Term: term, LastLogIndex: 1 << 40, LastLogTerm: term,
			LeadershipTransfer: true}, &out)
		return out.Term, err
	},
	"InstallSnapshot": func(t *raft.NetworkTransport, to raft.ServerAddress, h raft.RPCHeader, term uint64) (uint64, error) {
		var out raft.InstallSnapshotResponse
		data := []byte("nothing")
		servers := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(h.ID), Address: raft.ServerAddress(h.Addr)}}}
		err := t.InstallSnapshot("x", to, &raft.InstallSnapshotRequest{RPCHeader: h, SnapshotVersion: 1, Term: term, LastLogIndex: 1 << 40,
			LastLogTerm: term,
			Size:        int64(len(data)), Configuration: raft.EncodeConfiguration(servers), ConfigurationIndex: 1}, &out, bytes.NewReader(data))
		return out.Term, err
	},
	"TimeoutNow": func(t *raft.NetworkTransport, to raft.ServerAddress, h raft.RPCHeader, _ uint64) (uint64, error) {
		return 0, t.TimeoutNow("x", to, &raft.TimeoutNowRequest{RPCHeader: h}, &raft.TimeoutNowResponse{})
	},
}

// Only servers of the region may use Raft. Requests of other callers change neither the leader
// nor its term and state.
func TestRaft_ServersOfTheRegionOnly(t *testing.T) {
	x := newCertified(t)
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(x.all[1].Self().Tags["id"]), Addr: []byte(x.all[1].RPCAddr())}
	speak := func(cert string) *raft.NetworkTransport {
		u := usurper{dial: rawRaft, ended: make(chan struct{})}
		if cert != noCert {
			u.dial = x.pools[cert].DialRaft
		}
		tr := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: u, MaxPool: 1, Timeout: time.Minute})
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	own, others := speak(serverHere), map[string]*raft.NetworkTransport{}
	for _, cert := range everyCert {
		if cert != serverHere {
			others[cert] = speak(cert)
		}
	}
	// On a busy machine the leader may change for another reason, but not each time.
	for range 5 {
		if x.keepsItsLeader(t, own, others, header) {
			return
		}
	}
	t.Error("the leader or its term changes each time")
}

// keepsItsLeader sends Raft requests with a server's certificate and with others to every
// server. It reports whether the leader and its term are unchanged.
func (x *certified) keepsItsLeader(t *testing.T, own *raft.NetworkTransport, others map[string]*raft.NetworkTransport,
	header raft.RPCHeader) bool {
	t.Helper()
	leader, _ := servertest.Split(t, x.all)
	_, before := leader.Leader()
	// Requests with a server's certificate are answered, so the refusals below are due to the
	// certificates. Their term is outdated, which changes nothing.
	same, term := true, uint64(0)
	for _, name := range []string{"AppendEntries", "RequestVote", "InstallSnapshot"} {
		done, err := raftCalls[name](own, raft.ServerAddress(leader.RPCAddr()), header, 0)
		if err != nil || done == 0 {
			t.Errorf("%s with a server's certificate is answered with term %d, %v", name, done, err)
		}
		same, term = same && (term == 0 || done == term), done
	}
	for cert, tr := range others {
		for name, call := range raftCalls {
			for _, m := range x.all {
				if done, err := call(tr, raft.ServerAddress(m.RPCAddr()), header, term+100); err == nil {
					t.Errorf("with %s, %s is answered with term %d", cert, name, done)
				}
			}
		}
	}
	for _, m := range x.all {
		_, now := m.Leader()
		same = same && now == before
	}
	now, err := raftCalls["AppendEntries"](own, raft.ServerAddress(leader.RPCAddr()), header, 0)
	if err != nil || now >= term+100 {
		t.Errorf("the term is %d, was %d, %v", now, term, err)
	}
	servertest.Register(t, leader.Server, servertest.BatchJob("after", 0))
	return same && now == term
}
