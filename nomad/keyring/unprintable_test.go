package keyring

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Neither the material of a key nor a ring prints a key.
func TestMaterialDoesNotPrint(t *testing.T) {
	dek := []byte("the data encryption key of a test")
	m := material{dek: dek[:keySize], rsa: dek}
	r := New(Config{})
	wrapped, err := AEAD{}.Wrap(t.Context(), "k", m.dek, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := &rootkey.Key{KeyID: "k", Algorithm: rootkey.EncryptionAlgorithmAES256GCM, State: rootkey.Active,
		CreateTime: time.Now().UnixNano(), WrappedKeys: []*rootkey.Wrapped{wrapped}}
	if err := r.Add(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "material", m, "root", root)
	shown := log.String()
	for _, v := range []any{m, &m, []material{m}, r.keys["k"], *r.keys["k"], root} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			shown += fmt.Sprintf(verb, v) + "\n"
		}
	}
	for _, secret := range [][]byte{m.dek, wrapped.KeyEncryptionKey, wrapped.WrappedDataEncryptionKey.Ciphertext} {
		for _, form := range []string{string(secret), fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprint(secret), "[]"),
			fmt.Sprintf("%#v", secret[:4])[7:20]} {
			if strings.Contains(shown, form) {
				t.Errorf("a key prints as %q", form)
			}
		}
	}
}
