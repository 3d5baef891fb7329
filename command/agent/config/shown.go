package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Redacted returns the configuration as a map by field names. Secrets are redacted.
func (c *Config) Redacted() map[string]any { return shownBlock(reflect.ValueOf(*c)) }

// secretWords are parts of keys whose values are redacted.
var secretWords = []string{"token", "encrypt", "secret", "password", "auth", "key"}

// hidden reports whether the value of a key is a secret. The keys of file names and TTLs contain
// such words too, but are not secret.
func hidden(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"file", "ttl", "method", "allowed", "region", "path", "expiration"} {
		if strings.Contains(key, word) {
			return false
		}
	}
	for _, word := range secretWords {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// textDurations are the duration keys that tools expect as text, such as "5s". They expect other
// durations in nanoseconds.
var textDurations = []string{"https_handshake_timeout", "rpc_handshake_timeout", "collection_interval", "max_kill_timeout", "deadline",
	"start_timeout",
	"node_gc_threshold", "job_gc_interval", "job_gc_threshold", "eval_gc_threshold", "batch_eval_gc_threshold", "deployment_gc_threshold",
	"csi_volume_claim_gc_interval", "csi_volume_claim_gc_threshold", "csi_plugin_gc_threshold", "acl_token_gc_threshold",
	"root_key_gc_interval", "root_key_gc_threshold", "root_key_rotation_threshold",
	"http_read_timeout", "gcs_timeout", "git_timeout", "hg_timeout", "s3_timeout"}

// shownBlock returns a block as a map by field names, with secrets redacted.
func shownBlock(block reflect.Value) map[string]any {
	out := map[string]any{}
	t := block.Type()
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			key, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
			out[f.Name] = shownValue(key, block.Field(i))
		}
	}
	if k, ok := block.Interface().(Keyring); ok {
		out["Settings"] = k.config().Shown()
	}
	return out
}

// shownValue returns a value of the configuration, with secrets redacted.
func shownValue(key string, v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok && slices.Contains(textDurations, key) {
		return d.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		return shownBlock(v)
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return shownValue(key, v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return shownValue(key, v.Elem())
	case reflect.Map:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			name := it.Key().String()
			out[name] = shownValue(name, it.Value())
			if key == "headers" { // any of them may hold a secret
				out[name] = "<redacted>"
			}
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = shownValue(key, v.Index(i))
		}
		return out
	case reflect.String:
		if v.Len() > 0 && hidden(key) {
			return "<redacted>"
		}
	}
	return v.Interface()
}
