// Command verify verifies a token from outside of the cluster, as a service that trusts it would. It
// reads the token from standard input and fetches the public keys from a URL. It verifies signature,
// times and audience with go-jose, and prints the token's subject. Without an audience the token must
// be one for the API of the cluster.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: verify JWKS-URL [AUDIENCE] < token")
		os.Exit(2)
	}
	audience := "nomadproject.io"
	if len(os.Args) == 3 {
		audience = os.Args[2]
	}
	if err := verify(os.Args[1], audience, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

func verify(url, audience string, in io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(in, 8<<10))
	if err != nil {
		return err
	}
	keys, err := fetch(url)
	if err != nil {
		return err
	}
	token, err := jwt.ParseSigned(strings.TrimSpace(string(raw)), []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil {
		return err
	}
	var claims jwt.Claims
	if err := token.Claims(keys, &claims); err != nil {
		return fmt.Errorf("the signature does not match one of the %d keys at %s: %w", len(keys.Keys), url, err)
	}
	if err := claims.Validate(jwt.Expected{Time: time.Now(), AnyAudience: jwt.Audience{audience}}); err != nil {
		return err
	}
	fmt.Printf("valid: %s, signed %s with key %s\n", claims.Subject, token.Headers[0].Algorithm, token.Headers[0].KeyID)
	return nil
}

func fetch(url string) (*jose.JSONWebKeySet, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	var set jose.JSONWebKeySet
	return &set, json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&set)
}
