package httpapi

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/nomad"
)

// minKeyAge is the least time that verifiers may keep the keys.
const minKeyAge = 15 * time.Minute

// jwks answers with the public keys as a JWK set (RFC 7517).
func (s *Server) jwks(r *request) (any, error) {
	return read("Keyring.ListPublic", noFields[nomad.GenericRequest], func(o *nomad.KeyringListPublicResponse) (any, error) {
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
		for _, k := range o.PublicKeys {
			key, err := publicKey(k)
			if err != nil {
				return nil, err
			}
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: k.KeyID, Algorithm: k.Algorithm, Use: k.Use})
		}
		r.w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(int(keyAge(o, time.Now()).Seconds())))
		out, err := json.Marshal(set)
		return rawJSON(out), err
	})(r)
}

// publicKey decodes a key of Keyring.ListPublic: PKCS #1 DER, or 32 raw bytes.
func publicKey(k *nomad.KeyringPublicKey) (any, error) {
	switch jose.SignatureAlgorithm(k.Algorithm) {
	case jose.RS256:
		return x509.ParsePKCS1PublicKey(k.PublicKey)
	case jose.EdDSA:
		if len(k.PublicKey) == ed25519.PublicKeySize {
			return ed25519.PublicKey(k.PublicKey), nil
		}
	}
	return nil, fmt.Errorf("key %s: %d bytes are no public key of algorithm %q", k.KeyID, len(k.PublicKey), k.Algorithm)
}

// keyAge is half of the time until the newest key is due for rotation.
func keyAge(o *nomad.KeyringListPublicResponse, now time.Time) time.Duration {
	var newest int64
	for _, k := range o.PublicKeys {
		newest = max(newest, k.CreateTime)
	}
	left := time.Unix(0, newest).Add(o.RotationThreshold).Sub(now)
	return max(left/2, minKeyAge)
}

// discovery answers with the OpenID Connect configuration, when there is one.
func (s *Server) discovery(r *request) (any, error) {
	return read("Keyring.GetConfig", noFields[nomad.GenericRequest], func(o *nomad.KeyringGetConfigResponse) (any, error) {
		d := o.OIDCDiscovery
		if d == nil || d.Issuer == "" {
			return nil, nomad.Errorf(http.StatusNotFound, "OIDC Discovery endpoint disabled")
		}
		out, err := json.Marshal(map[string]any{
			"issuer":                                d.Issuer,
			"jwks_uri":                              d.JWKS,
			"id_token_signing_alg_values_supported": d.IDTokenAlgs,
			"response_types_supported":              d.ResponseTypes,
			"subject_types_supported":               d.Subjects,
		})
		return rawJSON(out), err
	})(r)
}
