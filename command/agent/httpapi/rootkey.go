package httpapi

import (
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// rootKeyRoutes returns the routes of root keys and of the public keys for verifiers.
func (s *Server) rootKeyRoutes() []route {
	return []route{
		{methods: "GET", path: "/v1/operator/keyring/keys", handle: read("Keyring.List", noFields[message.KeyringListRootKeyMetaRequest], func(o *message.KeyringListRootKeyMetaResponse) (any, error) { return o.Keys, nil })},
		{methods: "PUT POST", path: "/v1/operator/keyring/rotate", call: write("Keyring.Rotate", rootKeyRotate, whole[message.KeyringRotateRootKeyResponse])},
		{methods: "DELETE", path: "/v1/operator/keyring/key/:key_id", call: write("Keyring.Delete", rootKeyDelete, whole[message.KeyringDeleteRootKeyResponse])},
		{methods: "GET", path: "/.well-known/jwks.json", handle: s.jwks},
		{methods: "GET", path: "/.well-known/openid-configuration", handle: s.discovery},
	}
}

func rootKeyRotate(r *request, q *message.KeyringRotateRootKeyRequest) (err error) {
	q.Algorithm = nomad.EncryptionAlgorithm(r.query.Get("algo"))
	if q.Full, err = r.flag("full"); err != nil {
		return err
	}
	q.PublishTime, err = r.number("publish_time")
	return err
}

func rootKeyDelete(r *request, q *message.KeyringDeleteRootKeyRequest) error {
	q.KeyID = r.param
	if text := r.query.Get("force"); text != "" {
		force, err := strconv.ParseBool(text)
		if err != nil {
			return nomad.Errorf(http.StatusUnprocessableEntity, "force must be true or false, not %q", text)
		}
		q.Force = force
	}
	return nil
}
