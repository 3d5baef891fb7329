package httpapi

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// minKeyAge is the minimum time that verifiers may cache the keys.
const minKeyAge = 15 * time.Minute

// jwks returns the public keys as a JWK set (RFC 7517).
func jwks(r *web.Request) (any, error) {
	return web.Read("Keyring.ListPublic", web.NoFields[message.GenericRequest], func(o *message.KeyringListPublicResponse) (any, error) {
		var keys []jwt.PublicKey
		for _, k := range o.PublicKeys {
			key, err := jwt.ReadPublicKey(k.KeyID, k.PublicKey)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		r.Reply.Header().Set("Cache-Control", "max-age="+strconv.Itoa(int(keyAge(o, time.Now()).Seconds())))
		out, err := json.Marshal(jwt.NewJWKS(keys))
		return rawJSON(out), err
	})(r)
}

// keyAge returns half of the time until the newest key is due for rotation. It adds up to a tenth
// at random, so that verifiers do not all refresh at the same time.
func keyAge(o *message.KeyringListPublicResponse, now time.Time) time.Duration {
	var newest int64
	for _, k := range o.PublicKeys {
		newest = max(newest, k.CreateTime)
	}
	left := time.Unix(0, newest).Add(o.RotationThreshold).Sub(now)
	age := max(left/2, minKeyAge)
	return age + rand.N(age/10+1)
}

// discovery returns the OpenID Connect configuration, if there is one.
func discovery(r *web.Request) (any, error) {
	return web.Read("Keyring.GetConfig", web.NoFields[message.GenericRequest], func(o *message.KeyringGetConfigResponse) (any, error) {
		d := o.OIDCDiscovery
		if d == nil || d.Issuer == "" {
			return nil, apierror.Errorf(http.StatusNotFound, "OIDC Discovery endpoint disabled")
		}
		out, err := json.Marshal(map[string]any{
			"issuer":                                d.Issuer,
			"jwks_uri":                              d.JWKS,
			"id_token_signing_alg_values_supported": d.IDTokenAlgs,
			"response_types_supported":              d.ResponseTypes,
			"subject_types_supported":               d.Subjects,
			"claims_supported":                      d.Claims,
		})
		return rawJSON(out), err
	})(r)
}
