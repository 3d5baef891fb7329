package servertest

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// RootKeys returns the root keys of a server by state.
func RootKeys(t *testing.T, s *server.Server) map[rootkey.State][]string {
	t.Helper()
	out := map[rootkey.State][]string{}
	for _, k := range Read[message.KeyringListRootKeyMetaResponse](t, s, "Keyring.List",
		&message.KeyringListRootKeyMetaRequest{QueryOptions: Global}).Keys {
		out[k.State] = append(out[k.State], k.KeyID)
	}
	return out
}

// Rotate rotates the root key and returns the ID of the new one.
func Rotate(t *testing.T, s *server.Server, req message.KeyringRotateRootKeyRequest) string {
	t.Helper()
	req.Region = "global"
	return Read[message.KeyringRotateRootKeyResponse](t, s, "Keyring.Rotate", &req).Key.KeyID
}
