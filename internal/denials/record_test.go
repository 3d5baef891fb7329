package denials

import (
	"encoding/hex"
	"strings"
	"testing"
)

const stamp = "audit(1795288918.772:2): "

func TestLandlockDenial(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"file", `domain=1 blockers=fs.read_file path="/etc/passwd" dev="vda" ino=737`,
			`fs.read_file /etc/passwd (unveil = ["r:/etc/passwd"] allows it)`},
		{"program", `domain=1 blockers=fs.execute path="/opt/x"`, `fs.execute /opt/x (unveil = ["rx:/opt/x"] allows it)`},
		{"two rules", `domain=1 blockers=fs.write_file,fs.make_reg path="/srv"`,
			`fs.write_file,fs.make_reg /srv (unveil = ["wc:/srv"] allows it)`},
		{"hex path", `domain=1 blockers=fs.read_file path=` + strings.ToUpper(hex.EncodeToString([]byte("/a b"))),
			`fs.read_file /a b (unveil = ["r:/a b"] allows it)`},
		{"quote in a path", `domain=1 blockers=fs.read_file path=` + hex.EncodeToString([]byte(`/a"b`)),
			`fs.read_file "/a\"b" (unveil = ["r:/a\"b"] allows it)`},
		{"terminal codes in a path", `domain=1 blockers=fs.read_file path=` + hex.EncodeToString([]byte("/a\x1b[2J\nb")),
			`fs.read_file "/a\x1b[2J\nb" (the path cannot be written in a job)`},
		{"path that claims to be fields", `domain=1 blockers=fs.read_file path=` + hex.EncodeToString([]byte(`/a" uid=0 domain=2`)),
			`fs.read_file "/a\" uid=0 domain=2" (unveil = ["r:/a\" uid=0 domain=2"] allows it)`},
		{"no memory for the path", `domain=1 blockers=fs.read_file path="<no_memory>"`,
			`fs.read_file <no_memory> (the path cannot be written in a job)`},
		{"of a process", `domain=1 blockers=fs.read_file path="/proc/12/maps"`,
			`fs.read_file /proc/12/maps (the process number changes; unveil = ["r:/proc"] allows it, with all of /proc)`},
		{"removed file", `domain=1 blockers=fs.read_file path=` + hex.EncodeToString([]byte("/a (deleted)")),
			`fs.read_file /a (deleted) (the path cannot be written in a job)`},
		{"not UTF-8", `domain=1 blockers=fs.read_file path=2FFF`, `fs.read_file "/\xff" (the path cannot be written in a job)`},
		{"connect", `domain=1 blockers=net.connect_tcp daddr=127.0.0.1 dest=81`,
			`net.connect_tcp port 81 (network { connect = [81] } allows it)`},
		{"bind", `domain=1 blockers=net.bind_tcp saddr=127.0.0.1 src=80`, `net.bind_tcp port 80 (network { bind = [80] } allows it)`},
		{"signal", `domain=1 blockers=scope.signal opid=1 ocomm="init"`, `scope.signal (` + hints["scope.signal"] + `)`},
		{"abstract socket", `domain=1 blockers=scope.abstract_unix_socket path=0061`, `scope.abstract_unix_socket @a (` +
			hints["scope.abstract_unix_socket"] + `)`},
		{"rule of a later kernel", `domain=1 blockers=fs.teleport path="/a"`, `fs.teleport /a (no option of this version allows it)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, ok := parseRecord([]byte(stamp + tt.text + "\x00"))
			if !ok {
				t.Fatal("not a record")
			}
			d, ok := landlockDenial(r)
			if got := d.String(); !ok || got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if r.fields["domain"] != "1" {
				t.Errorf("domain %q", r.fields["domain"])
			}
		})
	}
}

func TestSeccompDenial(t *testing.T) {
	text := `auid=4294967295 uid=80001 gid=80001 ses=4294967295 pid=7 comm="x" exe="/x" sig=0 arch=c000003e syscall=321 compat=0 ip=0x1 code=0x50001`
	if hostArch() != "c000003e" {
		text = strings.Replace(strings.Replace(text, "c000003e", hostArch(), 1), "syscall=321", "syscall=280", 1)
	}
	r, _ := parseRecord([]byte(stamp + text))
	if d, ok := seccompDenial(r); !ok || d.Rule != "bpf" || d.Hint == "" {
		t.Errorf("got %+v, %t, want the system call bpf", d, ok)
	}
	r, _ = parseRecord([]byte(stamp + strings.Replace(text, hostArch(), "40000003", 1)))
	if d, _ := seccompDenial(r); !strings.Contains(d.Rule, "foreign architecture") {
		t.Errorf("got %+v, want a foreign system call", d)
	}
}

// TestHostileRecords checks malformed and oversized records.
func TestHostileRecords(t *testing.T) {
	for _, text := range []string{"", "audit(", "audit(1.2", "audit(1.2:x): domain=1", "audit(1.2:-3): a=b", "audit: domain=1",
		strings.Repeat("(", 9000)} {
		if r, ok := parseRecord([]byte(text)); ok {
			t.Errorf("parseRecord(%.30q) = %+v, want none", text, r)
		}
	}
	for _, text := range []string{"domain=1", "blockers= path=\"/a\"", "blockers=" + strings.Repeat("fs.read_file,", 60)} {
		r, ok := parseRecord([]byte(stamp + text))
		if !ok {
			t.Fatalf("%.30q is a record", text)
		}
		if d, ok := landlockDenial(r); ok {
			t.Errorf("%.30q: got %+v, want none", text, d)
		}
	}
	r, _ := parseRecord([]byte(stamp + "uid=1 " + strings.Repeat("x=y ", 100) + "uid=2"))
	if r.fields["uid"] != "1" || len(r.fields) > maxFields {
		t.Errorf("uid %q of %d fields, want the first", r.fields["uid"], len(r.fields))
	}
	r, _ = parseRecord([]byte(stamp + `path="` + strings.Repeat("a", maxPath+1) + `"`))
	if s, ok := r.text("path"); ok {
		t.Errorf("a path of %d bytes was taken", len(s))
	}
	r, _ = parseRecord([]byte(stamp + `path=0`))
	if s, ok := r.text("path"); ok {
		t.Errorf("half a byte was taken as %q", s)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(stamp + `domain=1 blockers=fs.read_file path="/etc/passwd"`))
	f.Add([]byte(stamp + `domain=1 blockers=scope.abstract_unix_socket path=0061 uid=1`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok := parseRecord(text)
		if !ok {
			return
		}
		if d, ok := landlockDenial(r); ok {
			if strings.ContainsAny(d.String(), "\x1b\n\r\x00") {
				t.Errorf("%q prints control characters: %q", text, d.String())
			}
			if d.Unveil != "" && !strings.HasPrefix(d.Unveil[strings.Index(d.Unveil, ":"):], ":/") {
				t.Errorf("%q: unveil %q", text, d.Unveil)
			}
		}
	})
}
