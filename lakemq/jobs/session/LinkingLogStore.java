package io.lakemq;

import io.delta.storage.HDFSLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on a disk: an entry is written beside its place and linked to it, which the file system does for one of any
 * number of drivers. Delta's own class goes through Hadoop's FileContext, which looks first and renames then, and forks
 * some ten processes for each commit (chmod, readlink): a fifth of its processor time.
 *
 * Hadoop's sidecar with the checksums is written as by Hadoop, since a start after a power cut finds torn entries by it.
 * Nothing is synced here: the gateway brings a table to disk before it counts on it.
 *
 * It is compiled as the jars are set up, by the compiler that is part of Spark.
 */
public class LinkingLogStore extends HDFSLogStore {
    private static final int CHUNK = 512;
    private static final byte[] VERSION = {'c', 'r', 'c', 0};

    public LinkingLogStore(Configuration hadoopConf) {
        super(hadoopConf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration hadoopConf) throws IOException {
        java.nio.file.Path place = Paths.get(path.toUri().getPath(), new String[0]);
        java.nio.file.Path sums = sidecar(place);
        byte[] content = textOf(actions);
        java.nio.file.Path written = Paths.get(createTempPath(path).toUri().getPath(), new String[0]);
        java.nio.file.Path summed = sidecar(written);
        try {
            Files.write(written, content);
            if (overwrite.booleanValue()) { // a hint that has a checksum of its own, and is read while it is replaced
                Files.deleteIfExists(sums);
                Files.move(written, place, new StandardCopyOption[] {StandardCopyOption.ATOMIC_MOVE});
                return;
            }
            Files.write(summed, sumsOf(content));
            if (!Files.exists(place, new LinkOption[0])) {
                Files.deleteIfExists(sums); // of an entry that is gone
            }
            link(written, place);
            Files.move(summed, sums, new StandardCopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        } finally {
            Files.deleteIfExists(written);
            Files.deleteIfExists(summed);
        }
    }

    /** Some file systems have no links: there it is as careful as Delta is. */
    private static void link(java.nio.file.Path written, java.nio.file.Path place) throws IOException {
        try {
            Files.createLink(place, written);
        } catch (FileAlreadyExistsException there) {
            throw there;
        } catch (UnsupportedOperationException none) {
            Files.move(written, place, new StandardCopyOption[0]);
        } catch (FileSystemException refused) {
            Files.move(written, place, new StandardCopyOption[0]);
        }
    }

    private static java.nio.file.Path sidecar(java.nio.file.Path file) {
        return file.resolveSibling("." + file.getFileName() + ".crc");
    }

    private static byte[] textOf(Iterator actions) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            text.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            text.write('\n');
        }
        return text.toByteArray();
    }

    /** As Hadoop's ChecksumFileSystem has them. */
    private static byte[] sumsOf(byte[] content) {
        ByteBuffer sums = ByteBuffer.allocate(VERSION.length + 4 + 4 * ((content.length + CHUNK - 1) / CHUNK));
        sums.put(VERSION).putInt(CHUNK);
        for (int start = 0; start < content.length; start += CHUNK) {
            CRC32 sum = new CRC32();
            sum.update(content, start, Math.min(CHUNK, content.length - start));
            sums.putInt((int) sum.getValue());
        }
        return sums.array();
    }
}
