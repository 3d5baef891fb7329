package httpapi

import (
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// rootKeyRoutes returns the routes of root keys and of the public keys for verifiers.
func rootKeyRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/operator/keyring/keys",
			Handle: web.Read("Keyring.List", web.NoFields[message.KeyringListRootKeyMetaRequest],
				func(o *message.KeyringListRootKeyMetaResponse) (any, error) { return o.Keys, nil })},
		{Methods: "PUT POST", Path: "/v1/operator/keyring/rotate",
			Call: web.Write("Keyring.Rotate", rootKeyRotate, web.Full[message.KeyringRotateRootKeyResponse])},
		{Methods: "DELETE", Path: "/v1/operator/keyring/key/:key_id",
			Call: web.Write("Keyring.Delete", rootKeyDelete, web.Full[message.KeyringDeleteRootKeyResponse])},
		{Methods: "GET", Path: "/.well-known/jwks.json", Handle: jwks},
		{Methods: "GET", Path: "/.well-known/openid-configuration", Handle: discovery},
	}
}

func rootKeyRotate(r *web.Request, q *message.KeyringRotateRootKeyRequest) (err error) {
	q.Algorithm = rootkey.EncryptionAlgorithm(r.Query.Get("algo"))
	if q.Full, err = r.Flag("full"); err != nil {
		return err
	}
	q.PublishTime, err = r.Number("publish_time")
	return err
}

func rootKeyDelete(r *web.Request, q *message.KeyringDeleteRootKeyRequest) error {
	q.KeyID = r.Param
	if text := r.Query.Get("force"); text != "" {
		force, err := strconv.ParseBool(text)
		if err != nil {
			return apierror.Errorf(http.StatusUnprocessableEntity, "force must be true or false, not %q", text)
		}
		q.Force = force
	}
	return nil
}
