// HTTP/3 by quic-go: quic-go-client COMMAND URL [ARGUMENT], a line of result.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The connection, once there is one.
var connection atomic.Pointer[quic.Conn]

func main() {
	command, url := os.Args[1], os.Args[2]
	all := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Dial:            dial,
	}
	client := &http.Client{Transport: all}
	var err error
	switch command {
	case "get":
		err = get(client, url)
	case "post":
		err = post(client, url, number())
	case "many":
		err = many(client, url, number())
	case "migrate":
		err = migrate(client, url, number())
	}
	all.Close()
	if err != nil {
		log.Fatal(err)
	}
}

func number() int {
	value, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// dial opens the connection on a socket of its own, of a kind that others may follow.
func dial(ctx context.Context, address string, tls *tls.Config, config *quic.Config) (*quic.Conn, error) {
	from, err := transport()
	if err != nil {
		return nil, err
	}
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	made, err := from.DialEarly(ctx, to, tls, config)
	connection.Store(made)
	return made, err
}

func transport() (*quic.Transport, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{})
	return &quic.Transport{Conn: socket}, err
}

func get(client *http.Client, url string) error {
	answer, err := client.Get(url + "/1000")
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, len(body), answer.Proto)
	return err
}

func post(client *http.Client, url string, size int) error {
	answer, err := client.Post(url, "text/plain", bytes.NewReader(make([]byte, size)))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
	return err
}

// many asks so many times at a time.
func many(client *http.Client, url string, count int) error {
	var wait sync.WaitGroup
	var good atomic.Int32
	for range count {
		wait.Go(func() {
			answer, err := client.Get(url + "/1000")
			if err != nil {
				log.Print(err)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err == nil && answer.StatusCode == 200 && len(body) == 1000 {
				good.Add(1)
			}
		})
	}
	wait.Wait()
	fmt.Println(good.Load())
	return nil
}

// migrate downloads, and goes on from another port in the middle of it.
func migrate(client *http.Client, url string, size int) error {
	answer, err := client.Get(fmt.Sprintf("%s/%d", url, size))
	if err != nil {
		return err
	}
	first, err := io.CopyN(io.Discard, answer.Body, int64(size/8))
	if err != nil {
		return err
	}
	other, err := transport()
	if err != nil {
		return err
	}
	path, err := connection.Load().AddPath(other)
	if err != nil {
		return fmt.Errorf("another path: %w", err)
	}
	if err := path.Probe(context.Background()); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if err := path.Switch(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	rest, err := io.Copy(io.Discard, answer.Body)
	fmt.Println(answer.StatusCode, first+rest)
	return err
}
