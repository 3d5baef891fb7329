package login

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// ErrDenied means that the login was denied. The wrapping error has the reason, and nothing
// from the token.
var ErrDenied = errors.New("login denied")

// ErrProvider means that a request to an identity provider failed or returned an invalid
// answer.
var ErrProvider = errors.New("identity provider")

// maxToken limits the size of a token. It is checked first.
const maxToken = 64 << 10

// latest is the last second of the year 9999.
const latest = 253_402_300_799

// The default leeways for times.
const (
	defaultExpiration = 150 * time.Second
	defaultNotBefore  = 150 * time.Second
	defaultSkew       = time.Minute
)

// expected holds the required claims.
type expected struct {
	algs      []jose.SignatureAlgorithm
	issuers   []string // one of them, if not empty
	audiences []string // one of them
	client    string   // audience and authorized party of an ID token
	nonce     string   // nonce of an ID token
	config    *rbac.AuthMethodConfig
}

// allowed returns the algorithms that a method allows.
func allowed(names []string) ([]jose.SignatureAlgorithm, error) {
	if len(names) == 0 {
		return []jose.SignatureAlgorithm{jose.RS256}, nil
	}
	var out []jose.SignatureAlgorithm
	for _, name := range names {
		alg := jose.SignatureAlgorithm(name)
		if !slices.Contains(algorithms, alg) {
			return nil, fmt.Errorf("signing algorithm %q is not one of %v", name, algorithms)
		}
		out = append(out, alg)
	}
	return out, nil
}

// verify returns the claims of a token after checking its signature and the required claims. It
// parses the payload only after the signature was verified.
func (p *provider) verify(ctx context.Context, raw string, want expected, now time.Time) (map[string]any, error) {
	payload, err := verifySignature(ctx, raw, p.source, want.algs)
	if err != nil {
		return nil, err
	}
	if err := jwt.CheckObject(payload); err != nil {
		return nil, fmt.Errorf("%w: the claims of the token: %w", ErrDenied, err)
	}
	claims := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if err := dec.Decode(&claims); err != nil {
		return nil, fmt.Errorf("%w: the claims of the token are not JSON", ErrDenied)
	}
	if err := want.check(claims, now); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return claims, nil
}

// verifySignature returns the payload if one of the keys signed it.
func verifySignature(ctx context.Context, raw string, keys keySource, algs []jose.SignatureAlgorithm) ([]byte, error) {
	if len(raw) > maxToken {
		return nil, fmt.Errorf("%w: the token has more than %d bytes", ErrDenied, maxToken)
	}
	signed, err := jose.ParseSignedCompact(raw, algs)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, fmt.Errorf("%w: not a token signed with %v", ErrDenied, algs)
	}
	head := signed.Signatures[0].Header
	known, err := keys.keys(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if !k.fits(head.Algorithm) {
			continue
		}
		if payload, err := signed.Verify(k.public); err == nil {
			return payload, nil
		}
	}
	return nil, fmt.Errorf("%w: no key of the auth method signed the token", ErrDenied)
}

// check validates the claims.
func (w expected) check(claims map[string]any, now time.Time) error {
	if err := w.checkTimes(claims, now); err != nil {
		return err
	}
	issuer, _ := claims["iss"].(string)
	if len(w.issuers) > 0 && !slices.Contains(w.issuers, issuer) {
		return errors.New("the token is from another issuer")
	}
	audience, err := audienceOf(claims)
	if err != nil {
		return err
	}
	if w.client != "" {
		if err := w.checkClient(claims, audience); err != nil {
			return err
		}
	}
	switch {
	case len(w.audiences) > 0 && !slices.ContainsFunc(audience, func(a string) bool { return slices.Contains(w.audiences, a) }):
		return errors.New("the token is for another audience")
	case len(w.audiences) == 0 && w.client == "" && len(audience) > 0:
		return errors.New("the token has an audience, but the auth method has no bound audiences")
	}
	return nil
}

// checkClient refuses an ID token for another client or another login.
func (w expected) checkClient(claims map[string]any, audience []string) error {
	party, given := claims["azp"]
	nonce, _ := claims["nonce"].(string)
	switch {
	case !slices.Contains(audience, w.client):
		return errors.New("the ID token is for another client")
	case len(audience) > 1 && !given, given && party != w.client:
		return errors.New("the ID token was issued to another party")
	case nonce == "" || nonce != w.nonce:
		return errors.New("the ID token is from another login")
	}
	if subject, _ := claims["sub"].(string); subject == "" {
		return errors.New("the ID token has no subject")
	}
	return nil
}

// audienceOf returns the audience of a token.
func audienceOf(claims map[string]any) ([]string, error) {
	switch aud := claims["aud"].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{aud}, nil
	case []any:
		var out []string
		for _, v := range aud {
			text, ok := v.(string)
			if !ok {
				return nil, errors.New("the audience of the token is not a list of strings")
			}
			out = append(out, text)
		}
		return out, nil
	}
	return nil, errors.New("the audience of the token is not a string")
}

// checkTimes refuses an expired token and one that is not valid yet. It derives a missing nbf
// or exp from the other times. At least one of the three must be present.
func (w expected) checkTimes(claims map[string]any, now time.Time) error {
	var at [3]float64
	for i, name := range []string{"iat", "nbf", "exp"} {
		v, given := claims[name]
		if !given {
			continue
		}
		n, isNumber := v.(json.Number)
		sec, err := n.Float64()
		if !isNumber || err != nil || math.IsNaN(sec) || sec <= 0 || sec > latest {
			return fmt.Errorf("%s of the token is not a time", name)
		}
		at[i] = sec
	}
	issued, begins, ends := at[0], at[1], at[2]
	if issued == 0 && begins == 0 && ends == 0 {
		return errors.New("the token has no iat, nbf or exp")
	}
	if ends == 0 {
		ends = max(issued, begins) + leeway(w.config.ExpirationLeeway, defaultExpiration)
	}
	if begins == 0 {
		begins = cmp.Or(issued, ends-leeway(w.config.NotBeforeLeeway, defaultNotBefore))
	}
	skew, sec := leeway(w.config.ClockSkewLeeway, defaultSkew), float64(now.UnixMilli())/1000
	switch {
	case sec-skew >= ends:
		return errors.New("the token is expired")
	case sec+skew < begins, sec+skew < issued:
		return errors.New("the token is not valid yet")
	}
	return nil
}

// leeway returns a configured leeway in seconds. Zero means the default, a negative value none.
func leeway(d, unset time.Duration) float64 {
	switch {
	case d < 0:
		return 0
	case d == 0:
		d = unset
	}
	return d.Seconds()
}
