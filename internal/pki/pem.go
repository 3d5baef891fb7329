package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "EC PRIVATE KEY"
)

// ParseCertificates returns the certificates of a PEM text, in order. It requires at least one.
// Blocks of other types are an error, so that a key is never taken for a certificate.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != certBlock {
			return nil, fmt.Errorf("a PEM block %s is expected, this is %q", certBlock, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(out)+1, err)
		}
		out, text = append(out, cert), rest
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no PEM block %s found", certBlock)
	}
	return out, nil
}

// parseKey reads a private key of any type that can sign.
func parseKey(text []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("no PEM block of a private key found")
		}
		switch block.Type {
		case keyBlock:
			return x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			if s, ok := key.(crypto.Signer); ok {
				return s, nil
			}
			return nil, fmt.Errorf("a key of type %T can't sign", key)
		case "EC PARAMETERS":
			text = rest // openssl ecparam writes them before the key
		default:
			return nil, fmt.Errorf("a PEM block of a private key is expected, this is %q", block.Type)
		}
	}
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}
