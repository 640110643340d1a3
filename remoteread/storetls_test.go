package remoteread

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/remoteread/stores"
)

// authority is a CA for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // of its certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	a.file, _ = a.issue(t, "ca")
	return a
}

// issue writes a certificate and its key to files; the first is the authority's own.
func (a *authority) issue(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		of.IsCA, of.BasicConstraintsValid, of.ExtKeyUsage = true, true, nil
		parent, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
	return certFile, keyFile
}

// A store that wants a client's certificate gets the one of tls_config; an error says what is wrong with it.
func TestStoreTLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ours.issue(t, "sidecar")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fakeStore{series: sends(seriesOf(pairs("__name__", "up"), aggrChunk(t, 0, 20_000)))}
	server := grpc.NewServer(grpc.ForceServerCodec(testCodec{}), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	leafpb.RegisterStoreServer(server, f)
	leafpb.RegisterInfoServer(server, f)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	cert, key := ours.issue(t, "promwarp")
	foreignCert, foreignKey := others.issue(t, "promwarp")
	for name, one := range map[string]struct {
		tls  *commonconfig.TLSConfig
		want string // an error; empty where the store answers
	}{
		"all is well":              {&commonconfig.TLSConfig{CAFile: ours.file, CertFile: cert, KeyFile: key, ServerName: "sidecar"}, ""},
		"another CA":               {&commonconfig.TLSConfig{CAFile: others.file, CertFile: cert, KeyFile: key, ServerName: "sidecar"}, "; check tls_config: ca_file and server_name"},
		"another name":             {&commonconfig.TLSConfig{CAFile: ours.file, CertFile: cert, KeyFile: key}, "; check tls_config: ca_file and server_name"},
		"no certificate":           {&commonconfig.TLSConfig{CAFile: ours.file, ServerName: "sidecar"}, "accepts the certificate of tls_config (cert_file, key_file)"},
		"another CA's certificate": {&commonconfig.TLSConfig{CAFile: ours.file, CertFile: foreignCert, KeyFile: foreignKey, ServerName: "sidecar"}, "accepts the certificate of tls_config (cert_file, key_file)"},
		"no TLS":                   {nil, "and whether it wants TLS (tls_config)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewStore(stores.Config{Address: l.Addr().String(), TLS: one.tls}, quickly(Options{Retries: -1}))
			require.NoError(t, err)
			defer s.Close()
			for range 5 {
				_, _, fetchErr := fetchStore(t.Context(), s)
				if one.want == "" {
					require.NoError(t, s.Probe(t.Context()))
					require.NoError(t, fetchErr)
					continue
				}
				require.ErrorContains(t, s.Probe(t.Context()), one.want)
				require.ErrorContains(t, fetchErr, one.want)
			}
		})
	}
	_, err = NewStore(stores.Config{Address: "a:1", TLS: &commonconfig.TLSConfig{CertFile: cert}}, Options{})
	require.ErrorContains(t, err, "tls_config: ")
	_, err = NewStore(stores.Config{Address: "a:1", TLS: &commonconfig.TLSConfig{CertFile: cert, KeyFile: "nowhere.pem"}}, Options{})
	require.ErrorContains(t, err, "correct it, or let promwarp's user read the file")
}
