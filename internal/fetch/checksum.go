package fetch

import (
	"crypto/md5"  //nolint:gosec // a form of go-getter's checksums
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// hashes are the types of checksums. The length of a value without a type determines its type.
var hashes = []struct {
	name string
	size int
	new  func() hash.Hash
}{
	{"md5", md5.Size, md5.New},
	{"sha1", sha1.Size, sha1.New},
	{"sha256", sha256.Size, sha256.New},
	{"sha512", sha512.Size, sha512.New},
}

// Checksum is the value of the option "checksum".
type Checksum struct {
	Type  string // md5, sha1, sha256, sha512 or file
	Value []byte // for all types except file
	URL   string // for type file: a list of checksums, which the program downloads
	new   func() hash.Hash
}

// ParseChecksum parses type:value, a hexadecimal value without a type, or file:url.
func ParseChecksum(text string) (*Checksum, error) {
	kind, value, typed := strings.Cut(text, ":")
	if typed && kind == "file" {
		if value == "" {
			return nil, fmt.Errorf("checksum %q has no URL", text)
		}
		return &Checksum{Type: kind, URL: value}, nil
	}
	if !typed {
		kind, value = "", text
	} else if kind == "" {
		return nil, fmt.Errorf("checksum %q has an empty type", text)
	}
	sum, err := hex.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("checksum %q is not hexadecimal", text)
	}
	for _, h := range hashes {
		if kind == "" && len(sum) != h.size || kind != "" && !strings.EqualFold(kind, h.name) {
			continue
		}
		if len(sum) != h.size {
			return nil, fmt.Errorf("checksum %q has %d bytes: %s has %d", text, len(sum), h.name, h.size)
		}
		return &Checksum{Type: h.name, Value: sum, new: h.new}, nil
	}
	if kind == "" {
		return nil, fmt.Errorf("checksum %q has %d bytes: use md5, sha1, sha256 or sha512", text, len(sum))
	}
	return nil, fmt.Errorf("unknown checksum type %q: use md5, sha1, sha256, sha512 or file", kind)
}

// String returns the checksum as type:value or file:url.
func (c *Checksum) String() string {
	if c.Type == "file" {
		return "file:" + c.URL
	}
	return c.Type + ":" + hex.EncodeToString(c.Value)
}

// Hash returns a hash of the checksum's type. It must not be called for type file.
func (c *Checksum) Hash() hash.Hash { return c.new() }
