package testvault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxCertTTL is the longest life of a certificate, and the default.
const maxCertTTL = 24 * time.Hour

// authority is the CA of a pki engine. Any role exists.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newAuthority() *authority {
	key := newKey()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testvault CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(365 * 24 * time.Hour)}
	return &authority{key: key, cert: cert, pem: sign(cert, cert, key, key)}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("testvault: bug: " + err.Error())
	}
	return key
}

// sign returns a certificate for a key as PEM.
func sign(cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) string {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		panic("testvault: bug: " + err.Error())
	}
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// pki serves the issue of a certificate.
func (c *call) pki(m *mount, path string) (*answer, error) {
	name, ok := strings.CutPrefix(path, "issue/")
	if !ok || name == "" || c.Method == http.MethodGet || c.Method == http.MethodDelete {
		c.fault("unexpected call")
		return nil, refuse(http.StatusNotFound, "unsupported path")
	}
	var in struct {
		CommonName string `json:"common_name"`
		AltNames   list   `json:"alt_names"`
		IPSANs     list   `json:"ip_sans"`
		TTL        seconds
		Format     string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	ttl := time.Duration(in.TTL)
	if ttl == 0 {
		ttl = maxCertTTL
	}
	if in.CommonName == "" || ttl > maxCertTTL || in.Format != "" && in.Format != "pem" {
		return nil, c.invalid("the common_name field is required, ttl is at most %s, format is pem", maxCertTTL)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := c.v.now()
	cert := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: in.CommonName}, NotBefore: now.Add(-30 * time.Second),
		NotAfter: now.Add(ttl), DNSNames: append([]string{in.CommonName}, in.AltNames...), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, text := range in.IPSANs {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, c.invalid("%q is not a valid IP address", text)
		}
		cert.IPAddresses = append(cert.IPAddresses, ip)
	}
	key := newKey()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	private := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	return &answer{Data: map[string]any{"certificate": sign(cert, m.ca.cert, key, m.ca.key), "issuing_ca": m.ca.pem,
		"ca_chain": []string{m.ca.pem}, "private_key": private, "private_key_type": "ec",
		"serial_number": fmt.Sprintf("%x", serial), "expiration": cert.NotAfter.Unix()}}, nil
}
