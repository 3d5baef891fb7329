package csivolumes_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// contains reports whether a text has a secret in some form.
func contains(text, secret string) bool {
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), base64.StdEncoding.EncodeToString([]byte(secret)),
		strings.Trim(fmt.Sprint([]byte(secret)), "[]")} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// Only calls to plugins and the reply of a claim have secrets: neither another reply, nor an event, the log, or a snapshot.
func TestSecrets_Hidden(t *testing.T) {
	const header = "topsecret-of-the-request"
	s, log := servertest.StartTracing(t, nil)
	servertest.Register(t, s, plugin())
	c := &cluster{T: t, s: s, st: newStorage(t)}
	c.n = c.st.join(s.RPCAddr(), "i-1")
	c.connected()
	events, err := servertest.Follow(t, s, servertest.EventRequest("*", servertest.Topics("*:*")))
	if err != nil {
		t.Fatal(err)
	}
	var replies strings.Builder
	call := func(method string, req, resp any, wantErr string) {
		t.Helper()
		wantError(t, method, c.call("", method, req, resp), wantErr)
		text, err := codec.Encode(resp)
		if err != nil {
			t.Fatal(err)
		}
		replies.Write(text)
	}
	call("CSIVolume.Create", &message.CSIVolumeCreateRequest{Volumes: []*csi.Volume{volume("db")}}, &message.CSIVolumeCreateResponse{}, "")
	call("CSIVolume.Register", &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{volume("db")}},
		&message.CSIVolumeRegisterResponse{}, "")
	call("CSIVolume.Get", &message.CSIVolumeGetRequest{ID: "db"}, &message.CSIVolumeGetResponse{}, "")
	call("CSIVolume.List", &message.CSIVolumeListRequest{}, &message.CSIVolumeListResponse{}, "")
	snapshot := &csi.Snapshot{SourceVolumeID: "db", Name: "s", Secrets: csi.Secrets{"key": header}}
	call("CSIVolume.CreateSnapshot", &message.CSISnapshotCreateRequest{Snapshots: []*csi.Snapshot{snapshot}},
		&message.CSISnapshotCreateResponse{}, "")
	c.st.do(func() {
		if got := c.st.secrets[len(c.st.secrets)-1]; !maps.Equal(got, csi.Secrets{"password": secret, "key": header}) {
			t.Errorf("a snapshot is created with %d secrets, want those of the volume and of the request", len(got))
		}
	})
	call("CSIVolume.ListSnapshots", &message.CSISnapshotListRequest{PluginID: "ebs", Secrets: csi.Secrets{"key": header}},
		&message.CSISnapshotListResponse{}, "")
	c.st.fails("DeleteVolume", "cannot delete with "+secret+" and "+header)
	call("CSIVolume.Delete", &message.CSIVolumeDeleteRequest{VolumeIDs: []string{"db"}, Secrets: csi.Secrets{"key": header}},
		&message.CSIVolumeDeleteResponse{}, "cannot delete with [REDACTED] and [REDACTED]")
	c.st.fails("AttachVolume", "login with "+secret+" failed")
	a := c.place(using("j", "db"))
	claimed, err := c.n.claim(a, "db", csi.ClaimWrite)
	wantError(t, "claim", err, "controller publish: controller attach volume: rpc error: code = Internal desc = login with [REDACTED] failed")
	c.st.fails("", "")
	if claimed, err = c.n.claim(a, "db", csi.ClaimWrite); err != nil || claimed.Volume.Secrets["password"] != secret {
		t.Errorf("claim: %v, want the secrets in the reply", err)
	}
	events.Until(func(e servertest.Event) bool { return e.Topic == "CSIVolume" && e.Type == "CSIVolumeClaim" })
	if !strings.Contains(events.Text.String(), "CSIVolumeRegistered") {
		t.Error("there is no event of the volume")
	}

	archive := servertest.State(t, s)
	for name, text := range map[string]string{"a reply": replies.String(), "the log": log.String(), "an event": events.Text.String(),
		"a snapshot": string(archive)} {
		if text == "" {
			t.Errorf("%s: there is no text", name)
		}
		for _, hidden := range []string{secret, header, "leaked"} {
			if contains(text, hidden) {
				t.Errorf("%s contains %q", name, hidden)
			}
		}
	}
	if !strings.Contains(string(archive), "vol-db") {
		t.Error("the snapshot has no volume: the test proves nothing")
	}
}

// A full rotation of the root key encrypts the secrets of volumes again.
func TestSecrets_Rotation(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, plugin())
	c := &cluster{T: t, s: s, st: newStorage(t)}
	c.n = c.st.join(s.RPCAddr(), "i-1")
	c.connected()
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	sealed := func() *csi.Sealed { return s.State().Snapshot().CSIVolume(nil, "default", "db").Sealed }
	old := sealed().KeyID
	now := servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{Full: true})
	servertest.Eventually(t, func() bool {
		return sealed().KeyID == now && s.State().Snapshot().RootKey(nil, old).State == rootkey.Inactive
	})
	for _, k := range servertest.Read[message.KeyringListRootKeyMetaResponse](t, s, "Keyring.List",
		&message.KeyringListRootKeyMetaRequest{QueryOptions: servertest.Global}).Keys {
		if want := map[string]int{now: 1}[k.KeyID]; k.Volumes != want {
			t.Errorf("key %s encrypts the secrets of %d volumes, want %d", k.KeyID, k.Volumes, want)
		}
	}
	c.st.took()
	if _, err := c.registered(volume("db", func(v *csi.Volume) { v.Secrets = nil })); err != nil {
		t.Error(err)
	}
	c.st.do(func() {
		if len(c.st.secrets) != 1 || c.st.secrets[0]["password"] != secret {
			t.Errorf("the plugin got %d secrets after the rotation", len(c.st.secrets))
		}
	})
}

// Servers of other builds store secrets in plain text. A leader encrypts them, at the latest when it is elected.
func TestSecrets_OtherBuilds(t *testing.T) {
	all := servertest.Cluster(t, 3, nil)
	leader, followers := servertest.Split(t, all)
	v := volume("db", func(v *csi.Volume) { v.Namespace = "default" })
	if err := leader.Apply(servertest.Context(t), message.CSIVolumeRegisterRequestType,
		&message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}}); err != nil {
		t.Fatal(err)
	}
	servertest.TransferLeadership(t, all, followers[0])
	servertest.Eventually(t, func() bool {
		now := followers[0].State().Snapshot().CSIVolume(nil, "default", "db")
		return now != nil && now.Secrets == nil && now.Sealed != nil
	})
	if contains(string(servertest.State(t, followers[0].Server)), secret) {
		t.Error("the snapshot has the secrets in plain text")
	}
}

// An update without secrets keeps those of the volume, one with an empty map removes them, and one with others replaces them.
// The request passes a follower, so that it is encoded.
func TestSecrets_Update(t *testing.T) {
	leader, followers := servertest.Split(t, servertest.Cluster(t, 3, nil))
	servertest.Register(t, leader.Server, plugin())
	c := &cluster{T: t, s: followers[0], st: newStorage(t)}
	c.n = c.st.join(leader.RPCAddr(), "i-1")
	c.connected()
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ sent, want csi.Secrets }{
		{nil, csi.Secrets{"password": secret}},
		{csi.Secrets{"token": "other"}, csi.Secrets{"token": "other"}},
		{nil, csi.Secrets{"token": "other"}},
		{csi.Secrets{}, nil},
		{nil, nil},
	} {
		c.st.took()
		if _, err := c.registered(volume("db", func(v *csi.Volume) { v.Secrets = step.sent })); err != nil {
			t.Fatal(err)
		}
		c.st.do(func() {
			if len(c.st.secrets) != 1 || !maps.Equal(c.st.secrets[0], step.want) {
				t.Errorf("after an update with %v the plugin got %v, want %v", step.sent, c.st.secrets, step.want)
			}
		})
		if got := leader.State().Snapshot().CSIVolume(nil, "default", "db"); (got.Sealed != nil) != (step.want != nil) || got.Secrets != nil {
			t.Errorf("after an update with %v the record has secrets: %t", step.sent, got.Sealed != nil)
		}
	}
}

// A request sets no fields that the servers own: a caller could otherwise give a volume the encrypted secrets of another one, whose
// plugin would then reveal them, or block it with claims.
func TestRequest_OwnedFields(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, plugin())
	c := &cluster{T: t, s: s, st: newStorage(t)}
	c.n = c.st.join(s.RPCAddr(), "i-1")
	c.connected()
	if _, err := c.create(volume("db")); err != nil {
		t.Fatal(err)
	}
	stolen := s.State().Snapshot().CSIVolume(nil, "default", "db").Sealed
	claims := map[string]*csi.Claim{"a": {AllocationID: "a"}}
	for _, id := range []string{"evil", "db"} {
		if _, err := c.registered(volume(id, func(v *csi.Volume) {
			v.Secrets, v.Sealed, v.ReadClaims, v.WriteClaims, v.PastClaims = csi.Secrets{}, stolen, claims, claims, claims
			v.AccessMode, v.Provider, v.CreateIndex, v.Schedulable = "multi-node-multi-writer", "evil", 9000, true
		})); err != nil {
			t.Fatal(err)
		}
		v := s.State().Snapshot().CSIVolume(nil, "default", id)
		if v.Sealed != nil || v.InUse() || v.AccessMode != "" || v.Provider != "aws" || v.CreateIndex == 9000 {
			t.Errorf("volume %s is %+v", id, v)
		}
	}
}
