package attack

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	whyOwnPort = "a task may listen: in mode host on the host's free ports from 1024 on, in mode none where nobody else is"
	whyAnyPort = whyOwnPort + "; on a port that the kernel chooses also where ports are listed, for Landlock is not asked"
	whyHostNet = "network mode host is what the job asked for: file modes and firewalls of the host decide, or network mode none"
)

// IPPROTO_SMC of linux/in.h.
const protoSMC = 256

// socketOperations create sockets of every kind.
var socketOperations = join(
	kinds(map[string][3]int{
		"raw": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, "raw6": {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0}, "packet-dgram": {unix.AF_PACKET, unix.SOCK_DGRAM, 0},
		"mptcp": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, "mptcp6": {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
		"smc": {unix.AF_INET, unix.SOCK_STREAM, protoSMC}, "sctp": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
		"sctp-seqpacket": {unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, "dccp": {unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP},
		"vsock": {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "crypto": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, "bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_RAW, 0},
		"xdp": {unix.AF_XDP, unix.SOCK_RAW, 0}, "key": {unix.AF_KEY, unix.SOCK_RAW, 2}, "can": {unix.AF_CAN, unix.SOCK_RAW, 1},
		"rds": {unix.AF_RDS, unix.SOCK_SEQPACKET, 0}, "tipc": {unix.AF_TIPC, unix.SOCK_STREAM, 0}, "kcm": {unix.AF_KCM, unix.SOCK_DGRAM, 0},
		"netlink-generic": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}, "netlink-netfilter": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		"netlink-xfrm": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}, "netlink-sock-diag": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
		"netlink-audit": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, "netlink-connector": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CONNECTOR},
		"netlink-crypto": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO},
	}),
	[]Operation{
		{Name: "socket/netlink-route", Why: "it only asks, as programs do for their addresses: changes need a capability", try: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{Name: "socket/netlink-uevents", try: netlinkGroup(unix.NETLINK_KOBJECT_UEVENT, 1)},
		{Name: "socket/netlink-audit-group", try: netlinkGroup(unix.NETLINK_AUDIT, 1)},
		{Name: "socket/ping", try: socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)},
		{Name: "socket/tcp", Why: "TCP is what tasks speak", try: socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{Name: "socket/udp", Why: "UDP is what tasks speak", try: socket(unix.AF_INET, unix.SOCK_DGRAM, 0)},
		{Name: "socket/unix", Why: "unix sockets among its own processes", try: socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{Name: "socket/mark", try: option(unix.SOL_SOCKET, unix.SO_MARK)},
		{Name: "socket/transparent", try: option(unix.SOL_IP, unix.IP_TRANSPARENT)},
		{Name: "socket/debug", try: option(unix.SOL_SOCKET, unix.SO_DEBUG)},
		{Name: "socket/receive-buffer-force", try: option(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE)},
		{Name: "socket/attach-bpf", Why: "a classic filter on its own socket only drops what it would have read", try: attachFilter},
		{Name: "socket/change-route", try: changeRoute},
	},
)

func socket(family, kind, proto int) func(*Targets) error {
	return func(*Targets) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func kinds(all map[string][3]int) []Operation {
	var out []Operation
	for name, k := range all {
		out = append(out, Operation{Name: "socket/" + name, try: socket(k[0], k[1], k[2])})
	}
	return out
}

func netlinkGroup(proto int, group uint32) func(*Targets) error {
	return func(*Targets) error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, proto)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: group})
	}
}

func option(level, opt int) func(*Targets) error {
	return func(*Targets) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, level, opt, 1)
	}
}

func attachFilter(*Targets) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &pass})
}

// changeRoute requests the removal of an interface that does not exist.
func changeRoute(*Targets) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	var msg [32]byte
	put32(msg[0:], 32)
	put32(msg[4:], unix.RTM_DELLINK|(unix.NLM_F_REQUEST|unix.NLM_F_ACK)<<16)
	put32(msg[20:], 0x7ffffff0) // interface
	if err := unix.Sendto(fd, msg[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var answer [128]byte
	if _, _, err := unix.Recvfrom(fd, answer[:], 0); err != nil {
		return err
	}
	return reached(unix.Errno(-int32(get32(answer[16:]))), unix.ENODEV)
}

func put32(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}
func get32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// connectOperations connect to other processes through sockets.
var connectOperations = []Operation{
	{Name: "connect/tcp", Why: whyHostNet, try: func(t *Targets) error { return connectTCP(t.TCP) }},
	{Name: "connect/tcp-fast-open", Why: whyHostNet, try: func(t *Targets) error { return fastOpen(t.TCP) }},
	{Name: "connect/tcp-reconnected", Why: whyHostNet, try: func(t *Targets) error { return reconnect(t.TCP) }},
	{Name: "connect/agent-api", Why: whyHostNet + "; the API asks for a token where access control is on", try: func(t *Targets) error { return connectTCP(t.HTTP) }},
	{Name: "connect/tcp-bind", Why: whyOwnPort, try: func(*Targets) error { return bindTCP(0) }},
	{Name: "connect/tcp-listen-unbound", Why: whyAnyPort, try: listenUnbound},
	{Name: "connect/tcp-bind-low-port", try: func(*Targets) error { return bindTCP(81) }},
	{Name: "connect/udp", Why: whyHostNet + "; Landlock has no rights for UDP", try: func(t *Targets) error { return sendUDP(t.UDP) }},
	{Name: "connect/abstract", try: func(t *Targets) error { return connectUnix("@"+t.Abstract, unix.SOCK_STREAM) }},
	{Name: "connect/abstract-datagram", try: func(t *Targets) error { return connectUnix("@"+t.AbstractDgram, unix.SOCK_DGRAM) }},
	{Name: "connect/abstract-send", try: func(t *Targets) error { return sendUnix("@" + t.AbstractDgram) }},
	{Name: "connect/path", Why: "before ABI 9 Landlock has no right for sockets in the file system: their modes decide, and this one is open to all", try: func(t *Targets) error { return connectUnix(t.Socket, unix.SOCK_STREAM) }},
	{Name: "connect/path-datagram", Why: "as connect/path", try: func(t *Targets) error { return connectUnix(t.SocketDgram, unix.SOCK_DGRAM) }},
	{Name: "connect/run", try: func(t *Targets) error { return connectUnix(t.RunSocket, unix.SOCK_STREAM) }},
	{Name: "files/supervisor-secret", try: opener(unix.O_RDONLY, func(t *Targets) string {
		return filepath.Join(filepath.Dir(t.SupervisorSocket), "secret")
	})},
	{Name: "connect/user-session", try: func(t *Targets) error { return connectUnix(t.SessionSocket, unix.SOCK_STREAM) }},
	{Name: "connect/supervisor", try: func(t *Targets) error { return connectUnix(t.SupervisorSocket, unix.SOCK_STREAM) }},
	{Name: "connect/start-by-supervisor", try: startBySupervisor},
	{Name: "connect/docker", try: func(t *Targets) error { return connectUnix("/var/run/docker.sock", unix.SOCK_STREAM) }},
	{Name: "connect/d-bus", try: func(t *Targets) error { return connectUnix("/run/dbus/system_bus_socket", unix.SOCK_STREAM) }},
	{Name: "connect/own-api", Why: "the task's own API socket, for its own identity", try: func(*Targets) error {
		return connectUnix(filepath.Join(os.Getenv("NOMAD_SECRETS_DIR"), "api.sock"), unix.SOCK_STREAM)
	}},
}

func local(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func tcp() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		wait := unix.NsecToTimeval(int64(3 * time.Second))
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &wait)
	}
	return fd, err
}

func connectTCP(port int) error {
	fd, err := tcp()
	if err != nil {
		return err
	}
	return unix.Connect(fd, local(port))
}

// fastOpen connects with TCP Fast Open. The kernel does not use the code path of connect(2) for it.
func fastOpen(port int) error {
	fd, err := tcp()
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, local(port))
}

// reconnect connects after a disconnect with an unspecified address family.
func reconnect(port int) error {
	fd, err := tcp()
	if err != nil {
		return err
	}
	unix.Connect(fd, local(1)) //nolint:errcheck // no listener there
	var none [16]byte
	if err := call(unix.SYS_CONNECT, uintptr(fd), addr(&none), 16); err != nil {
		return err
	}
	return unix.Connect(fd, local(port))
}

func bindTCP(port int) error {
	fd, err := tcp()
	if err != nil {
		return err
	}
	return unix.Bind(fd, local(port))
}

// listenUnbound listens on a port that the kernel chooses.
func listenUnbound(*Targets) error {
	fd, err := tcp()
	if err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}

func sendUDP(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, local(port)); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("x")); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("x")) // fails if the first was not received
	return err
}

// connectUnix connects to a socket. Its path may be too long for a socket address.
func connectUnix(name string, kind int) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if name[0] != '@' {
		if err := unix.Chdir(filepath.Dir(name)); err != nil {
			return err
		}
		name = filepath.Base(name)
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func sendUnix(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: name})
}
