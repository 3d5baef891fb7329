package nodeid

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// kernelBoot holds a UUID that the kernel generates at each boot.
const kernelBoot = "/proc/sys/kernel/random/boot_id"

// NewSession returns the session of this process. Without the boot ID, servers detect copies of
// a node later. bootFile holds the boot ID; "" is that of the kernel.
func NewSession(bootFile, nodeID string, log *slog.Logger) *nomad.NodeSession {
	if bootFile == "" {
		bootFile = kernelBoot
	}
	s := &nomad.NodeSession{ID: nomad.NewID()}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		log.Warn("read the boot ID, registering without it", "err", err)
		return s
	}
	sum := sha256.Sum256([]byte(nodeID + "\n" + strings.TrimSpace(string(boot))))
	s.BootID = hex.EncodeToString(sum[:])
	return s
}
