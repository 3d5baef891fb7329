package certs

import (
	"crypto/tls"
	"slices"
	"strings"
)

// versions are the values of tls_min_version. The suites below need TLS 1.2 anyway, so the older
// versions have the effect of tls12.
var versions = map[string]uint16{
	"": tls.VersionTLS12, "tls10": tls.VersionTLS10, "tls11": tls.VersionTLS11, "tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13,
}

func version(name string) (uint16, error) {
	v, ok := versions[strings.ToLower(name)]
	if !ok {
		return 0, wrong("tls_min_version", "tls10, tls11, tls12 or tls13 is expected, not %q", name)
	}
	return v, nil
}

// safe lists the offered suites: forward secrecy and an AEAD, never CBC.
var safe = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// suites parses comma-separated names.
func suites(text string) ([]uint16, error) {
	if strings.TrimSpace(text) == "" {
		return safe, nil
	}
	var out []uint16
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToUpper(strings.TrimSpace(name))
		at := slices.IndexFunc(safe, func(id uint16) bool {
			full := tls.CipherSuiteName(id)
			return name == full || strings.Contains(name, "CHACHA20") && name+"_SHA256" == full
		})
		if at < 0 {
			return nil, wrong("tls_cipher_suites", "%q is not offered; these are: %s", name, strings.Join(safeNames(), ", "))
		}
		out = append(out, safe[at])
	}
	return out, nil
}

func safeNames() []string {
	names := make([]string, len(safe))
	for i, id := range safe {
		names[i] = tls.CipherSuiteName(id)
	}
	return names
}
