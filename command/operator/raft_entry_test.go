package operator

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Secrets are not printed. Other fields are.
func TestEntriesAreRedacted(t *testing.T) {
	const secret = "5ecre7"
	inner := message.WriteRequest{Region: "visible", AuthToken: secret}
	for name, c := range map[string]struct {
		number message.CommandType
		body   any
	}{
		"NodeRegister": {message.NodeRegisterRequestType,
			&message.NodeRegisterRequest{Node: &nomad.Node{ID: "visible", SecretID: secret}, WriteRequest: inner}},
		"ApplyPlanResults": {message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{
			{ID: "visible", SignedIdentities: map[string]string{"t": secret}}}}},
		"WrappedRootKeysUpsert": {message.WrappedRootKeysUpsertRequestType,
			&message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: &rootkey.Key{
				KeyID: "visible", WrappedKeys: []*rootkey.Wrapped{{Provider: "aead", KeyEncryptionKey: []byte(secret)}}}}},
		"ACLTokenUpsert": {message.ACLTokenUpsertRequestType,
			map[string]any{"Tokens": []any{map[string]any{"AccessorID": "visible", "SecretID": secret}}}},
		"VarApplyState": {message.VarApplyStateRequestType,
			map[string]any{"Var": map[string]any{"Path": "visible", "KeyID": "k", "Data": []byte(secret)}}},
		"CSIVolumeRegister": {message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: "visible",
			Secrets: csi.Secrets{"k": secret}, Sealed: &csi.Sealed{KeyID: "k", Data: []byte(secret)},
			MountOptions: &nomad.CSIMountOptions{MountFlags: []string{"password=" + secret}}}}}},
		"EvalUpdate": {message.EvalUpdateRequestType, &message.EvalUpdateRequest{EvalToken: "eyJhbGciOiJFZERTQSJ9.e30." + secret,
			Evals: []*nomad.Evaluation{{ID: "visible"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := codec.EncodeCommand(c.number, c.body)
			if err != nil {
				t.Fatal(err)
			}
			for _, pretty := range []bool{false, true} {
				var out bytes.Buffer
				if err := printEntry(&out, &raft.Log{Index: 7, Term: 2, Type: raft.LogCommand, Data: data}, pretty); err != nil {
					t.Fatal(err)
				}
				text := out.String()
				if strings.Contains(text, secret) || strings.Contains(text, "NWVjcmU3") { // as base64
					t.Errorf("a secret is printed: %s", text)
				}
				if !strings.Contains(text, "visible") || !strings.Contains(text, redactedText) || pretty != strings.Contains(text, "\n  ") {
					t.Errorf("pretty %v: %s", pretty, text)
				}
				var e entry
				if err := json.Unmarshal(out.Bytes(), &e); err != nil || e.Index != 7 || e.Command != name {
					t.Errorf("entry = %+v, %v", e, err)
				}
			}
		})
	}
}

// An entry that can't be decoded is shown with the reason, and none of its bytes.
func TestEntriesThatAreDamaged(t *testing.T) {
	for _, data := range [][]byte{nil, {1, 0xc1, 'x'}, {120, 0x80}} {
		var out bytes.Buffer
		if err := printEntry(&out, &raft.Log{Index: 7, Type: raft.LogCommand, Data: data}, false); err != nil {
			t.Fatal(err)
		}
		var e entry
		if err := json.Unmarshal(out.Bytes(), &e); err != nil || (e.Error == "") != (len(data) == 2) || e.Index != 7 {
			t.Errorf("%v: entry = %s, %v", data, out.String(), err)
		}
	}
}
