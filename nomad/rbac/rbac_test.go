package rbac_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Durations are strings in JSON, and are read from strings or nanoseconds.
func TestACL_Durations(t *testing.T) {
	for in, want := range map[string]time.Duration{`"8h"`: 8 * time.Hour, `""`: 0, `3600000000000`: time.Hour, `null`: 0} {
		var token rbac.Token
		var method rbac.AuthMethod
		if err := json.Unmarshal([]byte(`{"AccessorID":"a","ExpirationTTL":`+in+`}`), &token); err != nil || token.ExpirationTTL != want ||
			token.AccessorID != "a" {
			t.Errorf("%s: %v, %v", in, token.ExpirationTTL, err)
		}
		if err := json.Unmarshal([]byte(`{"MaxTokenTTL":`+in+`,"Config":{"ClockSkewLeeway":`+in+`,"JWKSURL":"u"}}`), &method); err != nil ||
			method.MaxTokenTTL != want ||
			method.Config.ClockSkewLeeway != want || method.Config.JWKSURL != "u" {
			t.Errorf("%s: %v, %v", in, method.MaxTokenTTL, err)
		}
	}
	for _, bad := range []string{`"soon"`, `true`, `{}`} {
		if err := json.Unmarshal([]byte(`{"ExpirationTTL":`+bad+`}`), &rbac.Token{}); err == nil ||
			!strings.Contains(err.Error(), "ExpirationTTL") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	token := &rbac.Token{AccessorID: "a", SecretID: "s", ExpirationTTL: 90 * time.Minute}
	text, err := json.Marshal(token)
	if err != nil || !strings.Contains(string(text), `"ExpirationTTL":"1h30m0s"`) || !strings.Contains(string(text), `"SecretID":"s"`) {
		t.Errorf("%s, %v", text, err)
	}
	var again rbac.Token
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(&again, token) {
		t.Errorf("it is read again as %+v, %v", again.Stub(), err)
	}
	if text, _ = json.Marshal(&rbac.AuthMethod{}); !strings.Contains(string(text), `"MaxTokenTTL":""`) {
		t.Errorf("no TTL is written as %s", text)
	}
}

// Secrets are neither printed nor logged.
func TestACL_SecretsHidden(t *testing.T) {
	const canary = "canary-secret"
	token := &rbac.Token{AccessorID: "a", SecretID: canary}
	once := &rbac.OneTimeToken{AccessorID: "a", OneTimeSecretID: canary}
	conf := &rbac.AuthMethodConfig{OIDCClientSecret: canary, OIDCClientAssertion: &rbac.OIDCClientAssertion{ClientSecret: canary,
		PrivateKey: &rbac.OIDCClientAssertionKey{PemKey: canary}}}
	method := &rbac.AuthMethod{Name: "m", Config: conf}
	for _, v := range []any{token, once, conf, method, []any{token, method}, map[string]any{"x": once},
		struct{ Token *rbac.Token }{token}, &message.ACLTokenUpsertResponse{Tokens: []*rbac.Token{token}}} {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", fmt.Sprint(v))
		for _, verb := range []string{"%v", "%+v", "%s", "%q", "%x"} {
			fmt.Fprintf(&log, verb, v)
		}
		if strings.Contains(log.String(), canary) || strings.Contains(log.String(), fmt.Sprintf("%x", canary)) {
			t.Errorf("%T prints %s", v, log.String())
		}
	}
	text, err := json.Marshal([]any{token.Stub(), token.WithoutSecret(), method.Stub(), method.WithoutSecrets()})
	if err != nil || strings.Contains(string(text), canary) {
		t.Errorf("%s, %v", text, err)
	}
	if token.SecretID != canary || method.Config.OIDCClientSecret != canary || conf.OIDCClientAssertion.PrivateKey.PemKey != canary {
		t.Error("an omitted part of a copy is missing in the original")
	}
}

// changed returns a copy of v with a different value of one field.
func changed[T any](t *testing.T, v *T, field string) *T {
	t.Helper()
	out := codec.Copy(v)
	f := reflect.ValueOf(out).Elem()
	for _, name := range strings.Split(field, ".") {
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		f = f.FieldByName(name)
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int64:
		f.SetInt(f.Int() + 1)
	case reflect.Slice:
		f.Set(reflect.Append(f, reflect.ValueOf("x")))
	case reflect.Map:
		f.Set(reflect.ValueOf(map[string]string{"x": "y"}))
	default:
		t.Fatalf("field %s is a %s", field, f.Kind())
	}
	return out
}

// A hash depends on every field that an operator sets. Different lists have different hashes.
func TestACL_HashesDiffer(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, hash []byte) {
		t.Helper()
		if before, twice := seen[string(hash)]; twice {
			t.Errorf("%s has the hash of %s", what, before)
		}
		seen[string(hash)] = what
	}
	p := &rbac.Policy{Name: "n", JobACL: &rbac.JobACL{}}
	note("policy", codec.Copy(p).SetHash())
	for _, f := range []string{"Name", "Description", "Rules", "JobACL.Namespace", "JobACL.JobID", "JobACL.Group", "JobACL.Task"} {
		note("policy "+f, changed(t, p, f).SetHash())
	}
	note("policy without JobACL", (&rbac.Policy{Name: "n"}).SetHash())
	tok := &rbac.Token{Name: "n"}
	note("token", codec.Copy(tok).SetHash())
	for _, f := range []string{"Name", "Type", "Policies", "Global"} {
		note("token "+f, changed(t, tok, f).SetHash())
	}
	note("token, ab", (&rbac.Token{Policies: []string{"ab"}}).SetHash())
	note("token, a b", (&rbac.Token{Policies: []string{"a", "b"}}).SetHash())
	note("token, role", (&rbac.Token{Roles: []*rbac.TokenRoleLink{{ID: "ab"}}}).SetHash())
	if one, two := (&rbac.Token{Policies: []string{"a", "c"}}).SetHash(),
		(&rbac.Token{Policies: []string{"c", "a"}}).SetHash(); !bytes.Equal(one, two) {
		t.Error("the order of policies matters")
	}
	m := &rbac.AuthMethod{Name: "n",
		Config: &rbac.AuthMethodConfig{OIDCClientAssertion: &rbac.OIDCClientAssertion{PrivateKey: &rbac.OIDCClientAssertionKey{}}}}
	note("method", codec.Copy(m).SetHash())
	fields := []string{"Name", "Type", "TokenLocality", "TokenNameFormat", "MaxTokenTTL", "Default"}
	for prefix, of := range map[string]reflect.Type{"Config.": reflect.TypeFor[rbac.AuthMethodConfig](),
		"Config.OIDCClientAssertion.":            reflect.TypeFor[rbac.OIDCClientAssertion](),
		"Config.OIDCClientAssertion.PrivateKey.": reflect.TypeFor[rbac.OIDCClientAssertionKey]()} {
		for i := range of.NumField() {
			if of.Field(i).Type.Kind() != reflect.Pointer {
				fields = append(fields, prefix+of.Field(i).Name)
			}
		}
	}
	for _, f := range fields {
		note("method "+f, changed(t, m, f).SetHash())
	}
	r := &rbac.BindingRule{ID: "n"}
	note("rule", codec.Copy(r).SetHash())
	for _, f := range []string{"ID", "Description", "AuthMethod", "Selector", "BindType", "BindName"} {
		note("rule "+f, changed(t, r, f).SetHash())
	}
}
