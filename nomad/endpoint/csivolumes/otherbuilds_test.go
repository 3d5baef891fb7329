package csivolumes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// Servers of another build cannot open encrypted secrets. While the region may have one, volumes with secrets are refused, those
// without are not, and plain secrets in state are not encrypted.
func TestSecrets_MixedRegion(t *testing.T) {
	s := servertest.StartMember(t, "here", func(c *server.Config) { c.BootstrapExpect = 1 })
	servertest.Register(t, s.Server, plugin())
	c := &cluster{T: t, s: s, st: newStorage(t)}
	c.n = c.st.join(s.RPCAddr(), "i-1")
	c.connected()
	other, err := gossip.Open(gossip.Config{Name: "upstream.global", Bind: "127.0.0.1:0", Tags: map[string]string{ // those of Nomad 2.0
		"role": "nomad", "region": "global", "dc": "dc1", "build": "2.0.0", "vsn": "1", "raft_vsn": "3", "id": nomad.NewID(),
		"rpc_addr": "127.0.0.1", "port": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Join([]string{s.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool { return len(s.Members()) == 2 })
	_, err = c.create(volume("db"))
	servertest.WantError(t, err, 409, "the encryption of secrets of CSI volumes requires", "upstream.global")
	servertest.Equal(t, "calls", c.st.took(), "")
	if _, err := c.create(volume("open", func(v *csi.Volume) { v.Secrets = nil })); err != nil {
		t.Errorf("a volume without secrets: %v", err)
	}
	plain := volume("plain", func(v *csi.Volume) { v.Namespace = "default" })
	if err := s.Apply(servertest.Context(t), message.CSIVolumeRegisterRequestType,
		&message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{plain}}); err != nil {
		t.Fatal(err)
	}
	err = c.call("", "CSIVolume.Reseal", &message.CSIVolumeResealRequest{VolumeID: "plain"}, nil)
	servertest.WantError(t, err, 409, "upstream.global")
	if _, err := c.registered(volume("plain", func(v *csi.Volume) { v.Secrets = nil })); err != nil {
		t.Errorf("update of a volume with plain secrets: %v", err)
	}
	c.st.do(func() {
		if got := c.st.secrets[len(c.st.secrets)-1]; got["password"] != secret {
			t.Error("the plugin did not get the plain secrets of the volume")
		}
	})
	if v := s.State().Snapshot().CSIVolume(nil, "default", "plain"); v.Sealed != nil || v.Secrets["password"] != secret {
		t.Error("the secrets were encrypted, so that servers of another build lost them")
	}
}
