package server_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Commands that only this project implements are written only if every server of the region is
// of this project. They have the ignore flag, so that others skip them.
func TestOtherBuilds_Quotas(t *testing.T) {
	dir := t.TempDir()
	here := servertest.StartMember(t, "here", func(c *server.Config) { c.BootstrapExpect, c.DataDir = 1, dir })
	upsert := func(name string) error {
		return here.Call(servertest.Context(t), "Quota.Upsert", &message.QuotaUpsertRequest{WriteRequest: message.WriteRequest{Region: "global"},
			Quotas: []*quota.Spec{{Name: name,
				Limits: []*quota.Limit{{Region: "global", RegionLimit: &quota.Resources{Allocs: new(1)}}}}}}, nil)
	}
	remove := func(name string) error {
		return here.Call(servertest.Context(t), "Quota.Delete",
			&message.QuotaDeleteRequest{WriteRequest: message.WriteRequest{Region: "global"}, Names: []string{name}}, nil)
	}
	refused := func(err error, command string) bool {
		var coded *apierror.Coded
		return errors.As(err, &coded) && coded.Code == 409 && strings.Contains(err.Error(), "upstream.global") && strings.Contains(err.Error(),
			"command "+command+" requires")
	}
	servertest.Eventually(t, func() bool { return upsert("before") == nil })

	// The tags of Nomad 2.0.
	other, err := gossip.Open(gossip.Config{Name: "upstream.global", Bind: "127.0.0.1:0", Tags: map[string]string{
		"role": "nomad", "region": "global", "dc": "dc1", "build": "2.0.0", "vsn": "1", "raft_vsn": "3", "id": nomad.NewID(),
		"rpc_addr": "127.0.0.1", "port": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Join([]string{here.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return len(here.Members()) == 2 })
	if err := upsert("with-others"); !refused(err, "QuotaUpsert") {
		t.Errorf("Quota.Upsert with another build = %v, want 409 and its name", err)
	}
	if err := remove("before"); !refused(err, "QuotaDelete") {
		t.Errorf("Quota.Delete with another build = %v, want 409 and its name", err)
	}
	levels := func(isolation *nomad.NamespaceIsolation) error {
		return here.Call(servertest.Context(t), "Namespace.UpsertNamespaces",
			&message.NamespaceUpsertRequest{WriteRequest: message.WriteRequest{Region: "global"},
				Namespaces: []*nomad.Namespace{{Name: "team", Isolation: isolation}}}, nil)
	}
	var coded *apierror.Coded
	if err := levels(&nomad.NamespaceIsolation{Minimum: "host", Enforce: true}); !errors.As(err, &coded) || coded.Code != 409 ||
		!strings.Contains(err.Error(), `isolation of namespace "team" requires`) || !strings.Contains(err.Error(), "upstream.global") {
		t.Errorf("isolation levels with another build = %v, want 409 and its name", err)
	}
	if err := levels(nil); err != nil {
		t.Errorf("a namespace without levels with another build = %v", err)
	}
	if err := other.Leave(); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return remove("before") == nil })

	here.Stop()
	o, err := consensus.OpenOffline(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	quotas := 0
	err = o.Entries(0, func(l *raft.Log) error {
		if l.Type != raft.LogCommand {
			return nil
		}
		switch kind := message.CommandType(l.Data[0]); {
		case (kind &^ message.IgnoreUnknownTypeFlag).Ours():
			quotas++
			if kind&message.IgnoreUnknownTypeFlag == 0 {
				t.Errorf("entry %d of type %d has no ignore flag", l.Index, kind)
			}
		case kind&message.IgnoreUnknownTypeFlag != 0:
			t.Errorf("entry %d of type %d has the ignore flag, which upstream's servers do not write", l.Index, kind)
		}
		return nil
	})
	if err != nil || quotas != 2 {
		t.Errorf("the log has %d entries about quotas, %v, want 2", quotas, err)
	}
}

// Failed members count, and so do servers in the Raft configuration without a gossip member.
// Members that left and other regions do not.
func TestOtherBuilds_List(t *testing.T) {
	member := func(name, status string, tags ...string) *message.ServerMember {
		m := &message.ServerMember{Name: name, Status: status, Tags: map[string]string{"id": name, "region": "global"}}
		for i := 0; i < len(tags); i += 2 {
			m.Tags[tags[i]] = tags[i+1]
		}
		return m
	}
	members := []*message.ServerMember{
		member("a", gossip.Alive, "project", "open-nomad"),
		member("b", gossip.Failed, "project", "open-nomad"),
		member("c", gossip.Failed),
		member("d", gossip.Alive, "project", "another"),
		member("e", gossip.Left),
		member("f", gossip.Alive, "region", "eu"),
	}
	listed := []raft.Server{{ID: "a", Address: "10.0.0.1:4647"}, {ID: "b", Address: "10.0.0.2:4647"}, {ID: "g", Address: "10.0.0.7:4647"}}
	got := server.OtherBuilds("global", members, listed)
	if want := []string{"c", "d", "g at 10.0.0.7:4647"}; !slices.Equal(got, want) {
		t.Errorf("OtherBuilds() = %q, want %q", got, want)
	}
}
